"""The API over HTTP: authentication, verbs, and answers."""

import asyncio
import logging
import unicodedata
from collections.abc import Callable, Sequence
from contextlib import aclosing
from hmac import compare_digest
from typing import Any, Final, cast
from urllib.parse import unquote

import msgspec
from aiohttp import ClientPayloadError, web

from zoneward.sandbox.server import catalog, requests
from zoneward.sandbox.server import kubectl_tables as tables
from zoneward.sandbox.server import status_errors as errors
from zoneward.sandbox.server.kinds import Kind, Object
from zoneward.sandbox.server.list_watch import BOOKMARKS, error_line, is_true, list_objects, list_options, watch
from zoneward.sandbox.server.patches import MERGE_PATCH, STRATEGIC_PATCH, patch_object
from zoneward.sandbox.server.requests import JSON, ResourcePath, ResourcePaths, Shape
from zoneward.sandbox.server.resource_registry import Registry, Write, WriteResult
from zoneward.sandbox.server.schema import Validation
from zoneward.sandbox.server.status_errors import StatusError
from zoneward.sandbox.server.versioned_store import Key, Record, head_of

_HEALTH: Final = frozenset({"/healthz", "/livez", "/readyz"})
_LOG: Final = logging.getLogger(__name__)
_UNSUPPORTED_PATCHES: Final = {
    "application/apply-patch+yaml": ("server-side apply", "use kubectl apply without --server-side"),
    "application/json-patch+json": ("JSON patch", "use a merge patch or a strategic merge patch"),
}


class ApiHandler:
    """Answers the requests of clients that know the token."""

    def __init__(
        self,
        registry: Registry,
        *,
        token: str,
        bookmarks: float = BOOKMARKS,
    ) -> None:
        self._registry, self._store = registry, registry.store
        self._kinds: Sequence[Kind] = tuple(registry.kinds.values())
        self._routes = ResourcePaths(self._kinds)
        self._token, self._bearer = token.encode(), f"Bearer {token}".encode()
        self._bookmarks = bookmarks
        self._watches: set[asyncio.Task[Any]] = set()
        self._is_ending = False

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """The handler of aiohttp for all requests."""
        try:
            path = unquote(request.rel_url.raw_path)
            first, slash, rest = path.removeprefix("/").partition("/")
            if slash and compare_digest(_bytes(first), self._token):
                path = f"/{rest}"
            elif path not in _HEALTH and not compare_digest(
                _bytes(request.headers.get("Authorization", "")), self._bearer
            ):
                raise StatusError(401, "Unauthorized", "Unauthorized")
            return await self._answer_path(request, path)
        except StatusError as refusal:
            return _refused(refusal)
        except web.RequestPayloadError as error:
            return _refused(errors.bad_request(f"the body cannot be read: {' '.join(str(error).split())}"))
        except RecursionError:
            # The body can be decoded, but merging or encoding it recurses too deep.
            return _refused(errors.bad_request("the body is nested too deep"))
        except (ConnectionError, ClientPayloadError):
            # The client is gone.
            raise
        except Exception as error:
            _LOG.exception("%s %s", request.method, request.rel_url.raw_path.replace(self._token.decode(), "..."))
            return _refused(errors.unexpected(error))

    async def end_watches(self, *, within: float) -> None:
        """End all watches; after ``within`` seconds, drop clients that do not read."""
        self._is_ending = True
        for task in self._watches:
            task.cancel()
        if self._watches:
            await asyncio.wait(self._watches, timeout=within)

    async def _answer_path(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        if path in _HEALTH:
            return web.Response(text="ok")
        route = self._routes.route(path)
        if route is None:
            return self._discover(request, path.rstrip("/"))
        answer = await self._answer_route(request, route, requests.answer_shape(request.headers.get("Accept", "")))
        if route.kind.warning and not answer.prepared:
            answer.headers.extend(_warnings([route.kind.warning]))
        return answer

    async def _answer_route(self, request: web.BaseRequest, route: ResourcePath, shape: Shape) -> web.StreamResponse:
        match request.method:
            case "GET" if is_true(request.query.get("watch")) and not route.name:
                return await self._watch(request, route, shape)
            case "GET" if route.name:
                record = self._registry.record(route.kind, route.namespace, route.name)
                return self._answer_record(request, route.kind, record, shape)
            case "GET":
                options = list_options(route.kind, request.query, namespace=route.namespace)
                page = list_objects(self._store, route.kind.stored, options)
                return self._answer_list(request, route.kind, page.records, page.metadata(), shape)
            case "POST" if not route.name and (route.namespace or not route.kind.is_namespaced):
                return await self._create_or_replace(request, route, shape)
            case "PUT" if route.name:
                return await self._create_or_replace(request, route, shape)
            case "PATCH" if route.name:
                return await self._patch(request, route, shape)
            case "DELETE" if not route.subresource:
                return await self._delete(request, route, shape)
        raise errors.not_allowed()

    def _discover(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        if path == "/openapi/v2":
            return web.Response(body=catalog.OPENAPI_V2, headers={"Content-Type": catalog.OPENAPI_V2_TYPE})
        document = catalog.document(self._kinds, path, address=request.headers.get("Host", ""))
        roots = ("/api/", *(f"/apis/{kind.group}/" for kind in self._kinds if kind.group))
        if document is None and path.startswith(roots):
            raise StatusError(404, "NotFound", "the server could not find the requested resource", details={})
        if document is None:
            return web.Response(status=404, text="404 page not found\n")
        if request.method != "GET":
            raise errors.not_allowed()
        return _encoded(document)

    # --- watches ------------------------------------------------------------------------------------------------------

    async def _watch(self, request: web.BaseRequest, route: ResourcePath, shape: Shape) -> web.StreamResponse:
        kind = route.kind
        options = list_options(kind, request.query, namespace=route.namespace)
        shaper = self._shaper(request, kind, shape)
        events = watch(self._store, kind.stored, options, shaper=shaper, bookmarks=self._bookmarks)
        await anext(events)
        answer = web.StreamResponse(headers={"Content-Type": JSON, "Cache-Control": "no-cache, private"})
        answer.headers.extend(_warnings([kind.warning] if kind.warning else []))
        answer.enable_chunked_encoding()
        await answer.prepare(request)
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._watches.add(task)
        try:
            async with aclosing(events):
                async for lines in events:
                    await answer.write(b"".join(lines))
        except ConnectionError:
            pass
        except Exception as error:
            # The headers are sent already.
            _LOG.exception("watch of %s", kind.resource)
            await answer.write(error_line(errors.unexpected(error)))
        except asyncio.CancelledError:
            if not self._is_ending:
                raise
            task.uncancel()
        finally:
            self._watches.discard(task)
        return answer

    def _shaper(self, request: web.BaseRequest, kind: Kind, shape: Shape) -> Callable[[Object], Object] | None:
        if not shape and kind.stored_as is None:
            return None
        with_columns = True

        def shaped(stored: Object) -> Object:
            nonlocal with_columns
            document = self._shaped(request, kind, kind.from_stored(stored), shape)
            if shape == "Table" and not with_columns:
                # In a stream only the first table has columns.
                document["columnDefinitions"] = None
            with_columns = False
            return document

        return shaped

    # --- writing ------------------------------------------------------------------------------------------------------

    async def _create_or_replace(self, request: web.BaseRequest, route: ResourcePath, shape: Shape) -> web.Response:
        kind, namespace, name = route.kind, route.namespace, route.name
        content_type = requests.content_type_of(request)
        body = await requests.read_body(request)
        obj, warnings = requests.decode_object(body, content_type, kind, validation=_validation(request))
        is_new = not name or (kind.is_created_by_update and not route.subresource)
        if is_new and (not name or self._store.get(kind.stored, (namespace, name)) is None):
            done = self._registry.create(kind, namespace, obj, is_dry_run=bool(request.query.get("dryRun")))
        else:
            write = Write(subresource=route.subresource, is_dry_run=bool(request.query.get("dryRun")))
            done = self._registry.update(kind, namespace, name, lambda _old: obj, write)
        return self._answer_write(request, kind, done, shape, warnings)

    async def _patch(self, request: web.BaseRequest, route: ResourcePath, shape: Shape) -> web.Response:
        kind, content_type = route.kind, requests.content_type_of(request)
        if content_type in _UNSUPPORTED_PATCHES:
            raise errors.unsupported(415, "UnsupportedMediaType", *_UNSUPPORTED_PATCHES[content_type])
        if content_type not in (MERGE_PATCH, STRATEGIC_PATCH):
            raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", details={})
        body = await requests.read_body(request)
        warnings: list[str] = []

        def change(old: Object) -> Object:
            validation = _validation(request)
            new, new_warnings = patch_object(old, body, kind, content_type=content_type, validation=validation)
            warnings.extend(new_warnings)
            return new

        write = Write(subresource=route.subresource, is_patch=True, is_dry_run=bool(request.query.get("dryRun")))
        done = self._registry.update(kind, route.namespace, route.name, change, write)
        return self._answer_write(request, kind, done, shape, warnings)

    async def _delete(self, request: web.BaseRequest, route: ResourcePath, shape: Shape) -> web.Response:
        kind = route.kind
        options = requests.deletion_options(
            request.query, await requests.read_body(request), requests.content_type_of(request)
        )
        if route.name:
            done = self._registry.delete(kind, route.namespace, route.name, options)
            if done.is_gone:
                details = errors.details_of(kind, route.name) | {"uid": done.object["metadata"]["uid"]}
                success = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
                return _encoded(success | {"details": details})
            return self._answer_write(request, kind, done, shape)
        if (kind.is_namespaced and not route.namespace) or kind.plural == "namespaces":
            raise errors.not_allowed()
        selected = list_options(kind, request.query, namespace=route.namespace)
        page = list_objects(self._store, kind.stored, selected)
        for (namespace, name), _ in page.records:
            self._registry.delete(kind, namespace, name, options)
        return self._answer_list(request, kind, page.records, page.metadata(), shape)

    # --- answers ------------------------------------------------------------------------------------------------------

    def _answer_list(
        self,
        request: web.BaseRequest,
        kind: Kind,
        records: Sequence[tuple[Key, Record]],
        metadata: Object,
        shape: Shape,
    ) -> web.Response:
        if shape == "Table":
            objects = [kind.from_stored(record.object()) for _, record in records]
            include = request.query.get("includeObject", "")
            return _encoded(tables.table(kind, objects, metadata=metadata, include=include, now=self._registry.now))
        head = len(head_of(kind.stored))
        items = [b"{" + record.data[head:] for _, record in records]
        if kind.stored_as is not None:
            objects = [kind.from_stored(msgspec.json.decode(item)) for item in items]
            items = [msgspec.json.encode({name: obj[name] for name in obj if name != "apiVersion"}) for obj in objects]
        names = kind.kind.encode(), kind.api.encode(), msgspec.json.encode(metadata), b",".join(items)
        return _encoded(b'{"kind":"%sList","apiVersion":"%s","metadata":%s,"items":[%s]}' % names)

    def _answer_write(
        self, request: web.BaseRequest, kind: Kind, done: WriteResult, shape: Shape, warnings: Sequence[str] = ()
    ) -> web.Response:
        if done.record is not None:
            answer = self._answer_record(request, kind, done.record, shape)
        else:
            answer = _encoded(self._shaped(request, kind, kind.from_stored(done.object), shape))
        answer.set_status(201 if done.is_new else 200)
        answer.headers.extend(_warnings(warnings))
        return answer

    def _answer_record(self, request: web.BaseRequest, kind: Kind, record: Record, shape: Shape) -> web.Response:
        if not shape and kind.stored_as is None:
            return _encoded(record.data)
        return _encoded(self._shaped(request, kind, kind.from_stored(record.object()), shape))

    def _shaped(self, request: web.BaseRequest, kind: Kind, obj: Object, shape: Shape) -> Object:
        if shape == "Table":
            metadata = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
            include = request.query.get("includeObject", "")
            return tables.table(kind, [obj], metadata=metadata, include=include, now=self._registry.now)
        return tables.partial(obj) if shape else obj


def _validation(request: web.BaseRequest) -> Validation:
    return cast(Validation, request.query.get("fieldValidation") or "Warn")


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def _encoded(document: Object | bytes) -> web.Response:
    body = document if isinstance(document, bytes) else msgspec.json.encode(document)
    return web.Response(body=body + b"\n", headers={"Content-Type": JSON, "Cache-Control": "no-cache, private"})


def _refused(refusal: StatusError) -> web.Response:
    headers = {"Content-Type": JSON}
    if after := (refusal.details or {}).get("retryAfterSeconds"):
        headers["Retry-After"] = str(after)
    return web.Response(body=msgspec.json.encode(refusal.status()), status=refusal.code, headers=headers)


def _warnings(warnings: Sequence[str]) -> list[tuple[str, str]]:
    """Headers for warnings without control characters; upstream drops the others, too."""
    plain = [text for text in warnings if not any(unicodedata.category(character) == "Cc" for character in text)]
    escaped = (warning.replace("\\", "\\\\").replace('"', '\\"') for warning in plain)
    return [("Warning", f'299 - "{warning}"') for warning in escaped]
