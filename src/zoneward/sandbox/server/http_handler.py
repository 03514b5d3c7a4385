"""The API over HTTP: authentication, the verbs, and the form of the answer."""

import asyncio
import gzip
import json
import logging
import unicodedata
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from hmac import compare_digest
from typing import Any, Final
from urllib.parse import unquote

import msgspec
from aiohttp import ClientPayloadError, web

from zoneward.sandbox.server import discovery
from zoneward.sandbox.server import kubectl_tables as tables
from zoneward.sandbox.server.faults import FaultInjector, WatchFault
from zoneward.sandbox.server.kinds import Kind, Object
from zoneward.sandbox.server.list_pages import ListResult, is_true, list_objects, list_options
from zoneward.sandbox.server.patches import MERGE_PATCH, STRATEGIC_PATCH, patch_object
from zoneward.sandbox.server.requests import (
    JSON,
    AnswerForm,
    ResourcePath,
    ResourcePaths,
    answer_form,
    content_type_of,
    decode_object,
    deletion_options,
    not_acceptable,
    read_body,
    unsupported_body,
    validation_of,
    write_options,
)
from zoneward.sandbox.server.resource_registry import Registry, WriteResult
from zoneward.sandbox.server.status_errors import (
    StatusError,
    bad_request,
    details_of,
    no_such_resource,
    not_allowed,
    too_old,
    unauthorized,
    unexpected,
)
from zoneward.sandbox.server.versioned_store import head_of
from zoneward.sandbox.server.watches import BOOKMARKS, error_line, watch

_HEALTH: Final = frozenset({"/healthz", "/livez", "/readyz"})
_LOG: Final = logging.getLogger(__name__)
_APPLY_PATCH: Final = "application/apply-patch+yaml"
_JSON_PATCH: Final = "application/json-patch+json"
_UNSUPPORTED_PATCHES: Final = {
    _APPLY_PATCH: ("server-side apply", "use kubectl apply without --server-side"),
    _JSON_PATCH: ("JSON patch", "use a merge patch or a strategic merge patch"),
}


class ApiHandler:
    """Answers the requests of clients that know the token."""

    def __init__(
        self,
        registry: Registry,
        *,
        token: str,
        address: Callable[[], str],
        faults: FaultInjector | None = None,
        bookmarks: float = BOOKMARKS,
    ) -> None:
        self._registry, self._store = registry, registry.store
        self._kinds: Sequence[Kind] = tuple(registry.kinds.values())
        self._routes = ResourcePaths(self._kinds)
        self._token, self._bearer = token.encode(), f"Bearer {token}".encode()
        self._address, self._faults, self._bookmarks = address, faults, bookmarks
        self._watches: set[asyncio.Task[Any]] = set()
        self._is_ending = False

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """What aiohttp calls for each request."""
        try:
            path = unquote(request.rel_url.raw_path)
            first, slash, rest = path.removeprefix("/").partition("/")
            if slash and compare_digest(_bytes(first), self._token):
                path = f"/{rest}"
            elif path in _HEALTH:
                return healthy(request)
            elif not compare_digest(_bytes(request.headers.get("Authorization", "")), self._bearer):
                raise unauthorized()
            return await self._answer_with_faults(request, path)
        except StatusError as refusal:
            return refused(refusal, request)
        except web.RequestPayloadError as error:
            return refused(bad_request(f"the body cannot be read: {' '.join(str(error).split())}"), request)
        except RecursionError:
            # Bodies nested so deep that they can be read, and not merged or written; YAML may even hold itself.
            return refused(bad_request("the body is nested too deep"), request)
        except (ConnectionError, ClientPayloadError):
            # The client is gone.
            raise
        except Exception as error:
            _LOG.exception("%s %s", request.method, request.rel_url.raw_path.replace(self._token.decode(), "..."))
            return refused(unexpected(error), request)

    async def end_watches(self, *, within: float) -> None:
        """End them properly; after so many seconds, drop clients that do not read."""
        self._is_ending = True
        for task in self._watches:
            task.cancel()
        if self._watches:
            await asyncio.wait(self._watches, timeout=within)

    async def _answer_with_faults(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        """The answer, or what a fault makes of it."""
        if path in _HEALTH or path.startswith(("/livez/", "/readyz/")):
            return healthy(request)
        fault = None
        if self._faults is not None:
            is_watch, is_continued = is_true(request.query.get("watch")), bool(request.query.get("continue"))
            fault = self._faults.on_request(request.method, path, is_watch=is_watch, is_continued=is_continued)
        if fault is None:
            return await self._answer_path(request, path)
        await asyncio.sleep(fault.latency)
        if (refusal := fault.refusal()) is not None:
            raise refusal
        answer = await self._answer_path(request, path)
        if fault.is_answer_lost:
            _abort(request)
        return answer

    async def _answer_path(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        route = self._routes.route(path)
        if route is None:
            return self._discover(request, path.rstrip("/"))
        answer = await self._answer_route(request, route)
        if route.kind.warning and not answer.prepared:
            answer.headers.extend(warning_headers([route.kind.warning]))
        return answer

    async def _answer_route(self, request: web.BaseRequest, route: ResourcePath) -> web.StreamResponse:
        is_whole = route.subresource in ("", "status")
        match request.method:
            case "GET" if is_true(request.query.get("watch")) and not route.name:
                return await self._watch(request, route)
            case "GET" if is_whole:
                return self._get(request, route)
            case "POST" if not route.name:
                return await self._create(request, route)
            case "PUT" if route.name:
                return await self._replace(request, route)
            case "PATCH" if route.name and is_whole:
                return await self._patch(request, route)
            case "DELETE" if not route.subresource:
                return await self._delete(request, route)
        raise not_allowed()

    def _discover(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        if path == "/openapi/v2":
            return web.Response(body=discovery.OPENAPI_V2, headers={"Content-Type": discovery.OPENAPI_V2_TYPE})
        form = answer_form(request.headers.get("Accept", "").replace("application/vnd.kubernetes.protobuf", ""))
        if path in ("/api", "/apis") and form.is_aggregated:
            body = msgspec.json.encode(discovery.aggregated(self._kinds, core=path == "/api"))
            return web.Response(body=body, headers={"Content-Type": discovery.AGGREGATED})
        document = discovery.document(self._kinds, path, address=self._address())
        roots = ("/api/", *(f"/apis/{kind.group}/" for kind in self._kinds if kind.group))
        if document is None and path.startswith(roots):
            raise no_such_resource()
        if document is None:
            return web.Response(status=404, text="404 page not found\n")
        if request.method != "GET":
            raise not_allowed()
        return encoded(request, msgspec.json.encode(document))

    # --- reading ------------------------------------------------------------------------------------------------------

    def _get(self, request: web.BaseRequest, route: ResourcePath) -> web.StreamResponse:
        form, kind = answer_form(request.headers.get("Accept", "")), route.kind
        if route.name:
            record = self._registry.record(kind, route.namespace, route.name)
            if not form.shape and kind.stored_as is None:
                return encoded(request, record.data)
            return self._answer_object(request, kind, kind.from_stored(record.object()), form)
        options = list_options(kind, request.query, namespace=route.namespace)
        return self._list(request, kind, list_objects(self._store, kind.stored, options), form)

    def _list(self, request: web.BaseRequest, kind: Kind, found: ListResult, form: AnswerForm) -> web.StreamResponse:
        metadata = found.metadata()
        if form.shape == "PartialObjectMetadata":
            raise not_acceptable(
                f"you requested {form.shape}, but the requested object is a list (*{_in_go(kind)}List)"
            )
        if form.shape == "Table":
            things = [kind.from_stored(record.object()) for _, record in found.records]
            include, now = tables.inclusion(request.query.get("includeObject", "")), self._registry.now
            document = tables.table(kind, things, metadata=metadata, include=include, with_columns=True, now=now)
            return encoded(request, msgspec.json.encode(document))
        if kind.stored_as is None:
            head = len(head_of(kind))
            items = [b"{" + record.data[head:] for _, record in found.records]
        else:
            decoded = (kind.from_stored(record.object()) for _, record in found.records)
            items = [
                msgspec.json.encode({name: thing[name] for name in thing if name not in ("kind", "apiVersion")})
                for thing in decoded
            ]
        body = b'{"kind":"%sList","apiVersion":"%s","metadata":%s,"items":[%s]}' % (
            kind.kind.encode(),
            kind.api.encode(),
            msgspec.json.encode(metadata),
            b",".join(items),
        )
        return encoded(request, body)

    async def _watch(self, request: web.BaseRequest, route: ResourcePath) -> web.StreamResponse:
        form, kind = answer_form(request.headers.get("Accept", "").replace(";stream=watch", "")), route.kind
        options = list_options(kind, request.query, namespace=route.namespace)
        events = watch(
            self._store, kind.stored, options, shaper=self._shaper(request, kind, form), bookmarks=self._bookmarks
        )
        await anext(events)
        answer = web.StreamResponse(headers={"Content-Type": JSON, "Cache-Control": "no-cache, private"})
        answer.headers.extend(warning_headers([kind.warning] if kind.warning else []))
        answer.enable_chunked_encoding()
        await answer.prepare(request)
        task = asyncio.current_task()
        assert task is not None
        self._watches.add(task)
        try:
            async with aclosing(events):
                async for lines in events:
                    if self._faults is None:
                        await answer.write(b"".join(lines))
                    elif not await self._sent(request, answer, lines):
                        break
        except ConnectionError:
            pass
        except Exception as error:
            # It is too late for another answer.
            _LOG.exception("watch of %s", kind.resource)
            await answer.write(error_line(unexpected(error)))
        except asyncio.CancelledError:
            if not self._is_ending:
                raise
            task.uncancel()
        finally:
            self._watches.discard(task)
        return answer

    async def _sent(self, request: web.BaseRequest, answer: web.StreamResponse, lines: Sequence[bytes]) -> bool:
        """False where a fault ended it."""
        assert self._faults is not None
        for line in lines:
            match self._faults.on_event():
                case None:
                    await answer.write(line)
                case WatchFault.GONE:
                    await answer.write(error_line(too_old(0, self._store.version)))
                    return False
                case WatchFault.CUT:
                    await answer.write(line[: len(line) // 2])
                    _abort(request)
                    return False
                case WatchFault.DROP:
                    _abort(request)
                    return False
                case WatchFault.SILENCE:
                    while request.transport is not None and not request.transport.is_closing():
                        await asyncio.sleep(0.1)
                    return False
        return True

    def _shaper(self, request: web.BaseRequest, kind: Kind, form: AnswerForm) -> Callable[[Object], Object] | None:
        if not form.shape:
            return None if kind.stored_as is None else kind.from_stored
        include = tables.inclusion(request.query.get("includeObject", ""))
        with_columns = True

        def shaped(stored: Object) -> Object:
            nonlocal with_columns
            thing, now = kind.from_stored(stored), self._registry.now
            if form.shape == "PartialObjectMetadata":
                return tables.partial(thing)
            document = tables.table_of_one(kind, thing, include=include, with_columns=with_columns, now=now)
            with_columns = False
            return document

        return shaped

    # --- writing ------------------------------------------------------------------------------------------------------

    async def _create(self, request: web.BaseRequest, route: ResourcePath) -> web.StreamResponse:
        form, kind = answer_form(request.headers.get("Accept", "")), route.kind
        if kind.is_namespaced and not route.namespace:
            raise not_allowed()
        write, validation = (
            write_options(request.query, subresource=route.subresource, options="CreateOptions"),
            validation_of(request.query),
        )
        thing, warnings = decode_object(await read_body(request), content_type_of(request), kind, validation=validation)
        done = self._registry.create(kind, route.namespace, thing, write)
        return self._answer_write(request, kind, done, form, warnings)

    async def _replace(self, request: web.BaseRequest, route: ResourcePath) -> web.StreamResponse:
        form, kind = answer_form(request.headers.get("Accept", "")), route.kind
        write, validation = (
            write_options(request.query, subresource=route.subresource, options="UpdateOptions"),
            validation_of(request.query),
        )
        thing, warnings = decode_object(await read_body(request), content_type_of(request), kind, validation=validation)
        is_new = kind.is_created_by_update and not route.subresource
        if is_new and self._store.get(kind.stored, (route.namespace, route.name)) is None:
            done = self._registry.create(kind, route.namespace, thing, write)
        else:
            done = self._registry.update(kind, route.namespace, route.name, lambda _old: thing, write)
        return self._answer_write(request, kind, done, form, warnings)

    async def _patch(self, request: web.BaseRequest, route: ResourcePath) -> web.StreamResponse:
        form, kind = answer_form(request.headers.get("Accept", "")), route.kind
        content_type = content_type_of(request)
        if content_type in _UNSUPPORTED_PATCHES:
            raise unsupported_body(*_UNSUPPORTED_PATCHES[content_type])
        if content_type not in (MERGE_PATCH, STRATEGIC_PATCH):
            raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", details={})
        write, validation = (
            write_options(request.query, subresource=route.subresource, options="PatchOptions"),
            validation_of(request.query),
        )
        body = await read_body(request)
        warnings: list[str] = []

        def change(old: Object) -> Object:
            new, found = patch_object(old, body, kind, content_type=content_type, validation=validation)
            warnings.extend(found)
            return new

        done = self._registry.update(kind, route.namespace, route.name, change, replace(write, is_patch=True))
        return self._answer_write(request, kind, done, form, warnings)

    async def _delete(self, request: web.BaseRequest, route: ResourcePath) -> web.StreamResponse:
        form, kind = answer_form(request.headers.get("Accept", "")), route.kind
        deletion = deletion_options(request.query, await read_body(request), content_type_of(request))
        if route.name:
            done = self._registry.delete(kind, route.namespace, route.name, deletion)
            if done.is_gone and not kind.returns_deleted:
                return encoded(request, msgspec.json.encode(_success(kind, done.object)))
            return self._answer_write(request, kind, done, form)
        if (kind.is_namespaced and not route.namespace) or (not kind.is_namespaced and kind.plural == "namespaces"):
            raise not_allowed()
        options = list_options(kind, request.query, namespace=route.namespace)
        found = list_objects(self._store, kind.stored, options)
        for (namespace, name), _ in found.records:
            self._registry.delete(kind, namespace, name, deletion)
        return self._list(request, kind, found, form)

    # --- answers ------------------------------------------------------------------------------------------------------

    def _answer_write(
        self, request: web.BaseRequest, kind: Kind, done: WriteResult, form: AnswerForm, warnings: Sequence[str] = ()
    ) -> web.StreamResponse:
        headers = warning_headers(warnings)
        status = 201 if done.is_new else 200
        if done.record is not None and kind.stored_as is None and not form.shape:
            return encoded(request, done.record.data, status=status, headers=headers)
        return self._answer_object(request, kind, kind.from_stored(done.object), form, status=status, headers=headers)

    def _answer_object(
        self,
        request: web.BaseRequest,
        kind: Kind,
        thing: Object,
        form: AnswerForm,
        *,
        status: int = 200,
        headers: Sequence[tuple[str, str]] = (),
    ) -> web.StreamResponse:
        document = thing
        if form.shape == "Table":
            include = tables.inclusion(request.query.get("includeObject", ""))
            document = tables.table_of_one(kind, thing, include=include, now=self._registry.now)
        elif form.shape == "PartialObjectMetadata":
            document = tables.partial(thing)
        return encoded(request, msgspec.json.encode(document), status=status, headers=headers)


# --- requests ---------------------------------------------------------------------------------------------------------


def _bytes(text: str) -> bytes:
    """Of a header or a path."""
    return text.encode(errors="surrogateescape")


# --- answers ---------------------------------------------------------------------------------------------------------

_GZIP_FROM: Final = 128 * 1024
"""Bytes; shorter answers are not worth it, as upstream finds."""
_PRETTY: Final = ("curl/", "Wget/", "Mozilla/")
"""Programs that people read the output of."""


def encoded(
    request: web.BaseRequest, body: bytes, *, status: int = 200, headers: Sequence[tuple[str, str]] = ()
) -> web.Response:
    """JSON, indented or compressed if the client wants it."""
    body = _pretty(body) if _is_pretty(request) else body + b"\n"
    fields = [("Content-Type", JSON), ("Cache-Control", "no-cache, private"), *headers]
    if len(body) > _GZIP_FROM and "gzip" in request.headers.get("Accept-Encoding", ""):
        fields += [("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding")]
        body = gzip.compress(body, compresslevel=1, mtime=0)
    return web.Response(body=body, status=status, headers=fields)


def refused(refusal: StatusError, request: web.BaseRequest) -> web.Response:
    body = msgspec.json.encode(refusal.status())
    headers = {"Content-Type": JSON}
    after = (refusal.details or {}).get("retryAfterSeconds")
    if after:
        headers["Retry-After"] = str(after)
    return web.Response(body=_pretty(body) if _is_pretty(request) else body, status=refusal.code, headers=headers)


def warning_headers(warnings: Sequence[str]) -> list[tuple[str, str]]:
    """Those that a header can hold; upstream drops the others, too."""
    plain = [each for each in warnings if not any(unicodedata.category(character) == "Cc" for character in each)]
    escaped = (each.replace("\\", "\\\\").replace('"', '\\"') for each in plain)
    return [("Warning", f'299 - "{each}"') for each in escaped]


def healthy(request: web.BaseRequest) -> web.Response:
    if "verbose" not in request.query:
        return web.Response(text="ok")
    return web.Response(text=f"[+]ping ok\n{request.path.rpartition('/')[2]} check passed\n")


def _is_pretty(request: web.BaseRequest) -> bool:
    if "pretty" in request.query:
        return is_true(request.query["pretty"])
    return request.headers.get("User-Agent", "").startswith(_PRETTY)


def _pretty(body: bytes) -> bytes:
    return json.dumps(json.loads(body), indent=2, ensure_ascii=False).encode()


def _abort(request: web.BaseRequest) -> None:
    if request.transport is not None:
        request.transport.abort()


def _in_go(kind: Kind) -> str:
    """``core.Service``, ``discovery.EndpointSlice``."""
    return f"{kind.group.partition('.')[0] or 'core'}.{kind.kind}"


def _success(kind: Kind, thing: Object) -> Object:
    metadata = thing["metadata"]
    details = details_of(kind, metadata["name"], plural=True) | {"uid": metadata["uid"]}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
