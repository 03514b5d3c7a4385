"""The API over HTTP: who asks, for what, in which form, and the answer."""

import asyncio
import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from hmac import compare_digest
from typing import Any, Final
from urllib.parse import unquote

import msgspec
from aiohttp import web

from zoneward.kube.validation import FieldError
from zoneward.sources.sandbox import discovery, published, tables
from zoneward.sources.sandbox.bodies import LIMIT, applied_object, decoded_object, media_type, too_long, unsupported
from zoneward.sources.sandbox.faults import Faults, WatchFault
from zoneward.sources.sandbox.kinds import Kind
from zoneward.sources.sandbox.listing import Listed, is_true, list_options, listed
from zoneward.sources.sandbox.negotiation import JSON, YAML, Wanted, not_acceptable, wanted
from zoneward.sources.sandbox.options import deletion_options, validation_of, write_options
from zoneward.sources.sandbox.patching import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, patched
from zoneward.sources.sandbox.refusals import (
    Refusal,
    details_of,
    no_such_resource,
    not_allowed,
    options_invalid,
    too_old,
    unauthorized,
)
from zoneward.sources.sandbox.registry import Registry, Write, Written
from zoneward.sources.sandbox.routes import Route, Routes
from zoneward.sources.sandbox.store import head_of
from zoneward.sources.sandbox.watching import BOOKMARKS, error_line, watch

Object = dict[str, Any]

_HEALTH: Final = frozenset({"/healthz", "/livez", "/readyz"})
_GZIP_FROM: Final = 128 * 1024
"""Bytes; shorter answers are not worth it, as upstream finds."""
_PRETTY: Final = ("curl/", "Wget/", "Mozilla/")
"""Programs that people read the output of."""
_APPLY: Final = "application/apply-patch+yaml"
_PATCHES: Final = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, _APPLY)


class Server:
    """Answers requests to a registry, of those who know the token."""

    def __init__(
        self,
        registry: Registry,
        *,
        token: str,
        address: Callable[[], str],
        faults: Faults | None = None,
        bookmarks: float = BOOKMARKS,
    ) -> None:
        self._registry, self._store = registry, registry.store
        self._kinds: Sequence[Kind] = tuple(registry.kinds.values())
        self._routes = Routes(self._kinds)
        self._token, self._prefix = f"Bearer {token}".encode(), f"/{token}/"
        self._address, self._faults, self._bookmarks = address, faults, bookmarks

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """What aiohttp calls for each request."""
        try:
            path = unquote(request.rel_url.raw_path)
            if path.startswith(self._prefix):
                path = path[len(self._prefix) - 1 :]
            elif path in _HEALTH:
                return _healthy(request)
            elif not compare_digest(request.headers.get("Authorization", "").encode(), self._token):
                raise unauthorized()
            return await self._met(request, path)
        except Refusal as refusal:
            return _refused(refusal, request)

    async def _met(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        """The answer, or what a fault makes of it."""
        if path in _HEALTH or path.startswith(("/livez/", "/readyz/")):
            return _healthy(request)
        fault = None
        if self._faults is not None:
            is_watch, is_continued = is_true(request.query.get("watch")), bool(request.query.get("continue"))
            fault = self._faults.on_request(request.method, path, is_watch=is_watch, is_continued=is_continued)
        if fault is None:
            return await self._answered(request, path)
        await asyncio.sleep(fault.latency)
        if (refusal := fault.refusal()) is not None:
            raise refusal
        answer = await self._answered(request, path)
        if fault.is_answer_lost:
            _break(request)
        return answer

    async def _answered(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        route = self._routes.route(path)
        if route is None:
            return self._about_the_server(request, path.rstrip("/"))
        match request.method:
            case "GET" if route.is_watch or (is_true(request.query.get("watch")) and not route.name):
                return await self._watch(request, route)
            case "GET":
                return self._get(request, route)
            case "POST" if not route.name:
                return await self._create(request, route)
            case "PUT" if route.name:
                return await self._replace(request, route)
            case "PATCH" if route.name:
                return await self._patch(request, route)
            case "DELETE" if not route.subresource:
                return await self._delete(request, route)
        raise not_allowed()

    # --- about the server ---------------------------------------------------------------------------------------------

    def _about_the_server(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        form = wanted(request.headers.get("Accept", "").replace("application/vnd.kubernetes.protobuf", ""))
        document: Object | None = None
        if path in ("/api", "/apis") and form.is_aggregated:
            body = msgspec.json.encode(discovery.aggregated(self._kinds, core=path == "/api"))
            return web.Response(body=body, headers={"Content-Type": discovery.AGGREGATED})
        match path.strip("/").split("/"):
            case [""]:
                document = discovery.paths(self._kinds)
            case ["version"]:
                document = discovery.version()
            case ["api"]:
                document = discovery.core_versions(address=self._address())
            case ["apis"]:
                document = discovery.groups(self._kinds)
            case ["apis", group]:
                document = discovery.group(self._kinds, group)
            case ["api", version]:
                document = discovery.resources(self._kinds, version)
            case ["apis", group, version]:
                document = discovery.resources(self._kinds, f"{group}/{version}")
            case ["openapi", "v3"]:
                document = published.root(self._kinds)
            case ["openapi", "v3", *rest] if found := published.description("/".join(rest)):
                return _published(request, path, found)
            case ["openapi", "v3", *_]:
                return web.Response(status=404)
            case ["openapi", "v2"]:
                return web.Response(body=published.VERSION_2, headers={"Content-Type": published.VERSION_2_TYPE})
        groups = ("/api/", *(f"/apis/{kind.group}/" for kind in self._kinds if kind.group))
        if document is None and path.startswith(groups):
            raise no_such_resource()
        if document is not None and request.method != "GET":
            raise not_allowed()
        if document is None:
            return web.Response(status=404, text="404 page not found\n")
        return self._encoded(request, msgspec.json.encode(document), form)

    # --- reading ------------------------------------------------------------------------------------------------------

    def _get(self, request: web.BaseRequest, route: Route) -> web.StreamResponse:
        form, kind = wanted(request.headers.get("Accept", "")), route.kind
        if route.name:
            record = self._registry.record(kind, route.namespace, route.name)
            if not form.shape and kind.stored_as is None:
                return self._encoded(request, record.data, form)
            return self._shaped(request, kind, kind.from_stored(record.object()), form)
        options = list_options(kind, request.query, namespace=route.namespace)
        return self._list(request, kind, listed(self._store, kind.stored, options), form)

    def _list(self, request: web.BaseRequest, kind: Kind, found: Listed, form: Wanted) -> web.StreamResponse:
        metadata = found.metadata()
        if form.shape == "PartialObjectMetadata":
            raise not_acceptable(
                f"you requested {form.shape}, but the requested object is a list (*{_in_go(kind)}List)"
            )
        if form.shape or kind.stored_as is not None:
            things = [kind.from_stored(record.object()) for _, record in found.records]
            if form.shape == "Table":
                include = tables.inclusion(request.query.get("includeObject", ""))
                now, version = self._registry.now, form.version
                document = tables.table(kind, things, metadata=metadata, include=include, now=now, version=version)
                return self._encoded(request, msgspec.json.encode(document), form)
            if form.shape:
                document = tables.partial_list(things, metadata=metadata, version=form.version)
                return self._encoded(request, msgspec.json.encode(document), form)
            items = [msgspec.json.encode(_without_head(thing)) for thing in things]
        else:
            head = len(head_of(kind))
            items = [b"{" + record.data[head:] for _, record in found.records]
        body = b'{"kind":"%sList","apiVersion":"%s","metadata":%s,"items":[%s]}' % (
            kind.kind.encode(),
            kind.api.encode(),
            msgspec.json.encode(metadata),
            b",".join(items),
        )
        return self._encoded(request, body, form)

    async def _watch(self, request: web.BaseRequest, route: Route) -> web.StreamResponse:
        form, kind = wanted(request.headers.get("Accept", "").replace(";stream=watch", "")), route.kind
        query = {**request.query, "watch": "true"}
        options = list_options(kind, query, namespace=route.namespace, name=route.name)
        events = watch(
            self._store, kind.stored, options, shaper=self._shaper(request, kind, form), bookmarks=self._bookmarks
        )
        await anext(events)
        answer = web.StreamResponse(headers={"Content-Type": JSON, "Cache-Control": "no-cache, private"})
        answer.enable_chunked_encoding()
        await answer.prepare(request)
        try:
            async for lines in events:
                if self._faults is None:
                    await answer.write(b"".join(lines))
                elif not await self._sent(request, answer, lines):
                    break
        except ConnectionError:
            pass
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
                    _break(request)
                    return False
                case WatchFault.DROP:
                    _break(request)
                    return False
                case WatchFault.SILENCE:
                    while request.transport is not None and not request.transport.is_closing():
                        await asyncio.sleep(0.1)
                    return False
        return True

    def _shaper(self, request: web.BaseRequest, kind: Kind, form: Wanted) -> Callable[[Object], Object] | None:
        if not form.shape:
            return None if kind.stored_as is None else kind.from_stored
        include = tables.inclusion(request.query.get("includeObject", ""))
        with_columns = True

        def shaped(thing: Object) -> Object:
            nonlocal with_columns
            if form.shape != "Table":
                return tables.partial(kind.from_stored(thing), version=form.version)
            told = tables.table_of_one(
                kind,
                kind.from_stored(thing),
                include=include,
                with_columns=with_columns,
                now=self._registry.now,
                version=form.version,
            )
            with_columns = False
            return told

        return shaped

    # --- writing ------------------------------------------------------------------------------------------------------

    async def _create(self, request: web.BaseRequest, route: Route) -> web.StreamResponse:
        form, kind = wanted(request.headers.get("Accept", "")), route.kind
        if kind.is_namespaced and not route.namespace:
            raise not_allowed()
        write, validation = _write(request, route, "CreateOptions"), validation_of(request.query)
        thing, warnings = decoded_object(await _body(request), _content_type(request), kind, validation=validation)
        done = self._registry.create(kind, route.namespace, thing, write)
        return self._told(request, kind, done, form, warnings)

    async def _replace(self, request: web.BaseRequest, route: Route) -> web.StreamResponse:
        form, kind = wanted(request.headers.get("Accept", "")), route.kind
        write, validation = _write(request, route, "UpdateOptions"), validation_of(request.query)
        thing, warnings = decoded_object(await _body(request), _content_type(request), kind, validation=validation)
        is_new = kind.is_created_by_update and not route.subresource
        if is_new and self._store.get(kind.stored, (route.namespace, route.name)) is None:
            done = self._registry.create(kind, route.namespace, thing, write)
        else:
            done = self._registry.update(kind, route.namespace, route.name, lambda _old: thing, write)
        return self._told(request, kind, done, form, warnings)

    async def _patch(self, request: web.BaseRequest, route: Route) -> web.StreamResponse:
        form, kind = wanted(request.headers.get("Accept", "")), route.kind
        content_type = _content_type(request)
        if content_type not in _PATCHES:
            raise unsupported()
        write, validation = _write(request, route, "PatchOptions"), validation_of(request.query)
        force, body = is_true(request.query.get("force")), await _body(request)
        if content_type == _APPLY:
            if not request.query.get("fieldManager"):
                problem = "Required value: is required for apply patch"
                raise options_invalid("PatchOptions", [FieldError("FieldValueRequired", "fieldManager", problem)])
            applied = applied_object(body)
            done = self._registry.apply(kind, route.namespace, route.name, applied, write, force=force)
            return self._told(request, kind, done, form)
        if force:
            problem = "Forbidden: may not be specified for non-apply patch"
            raise options_invalid("PatchOptions", [FieldError("FieldValueForbidden", "force", problem)])
        warnings: list[str] = []

        def change(old: Object) -> Object:
            new, told = patched(old, body, kind, content_type=content_type, validation=validation)
            warnings.extend(told)
            return new

        done = self._registry.update(kind, route.namespace, route.name, change, replace(write, is_patch=True))
        return self._told(request, kind, done, form, warnings)

    async def _delete(self, request: web.BaseRequest, route: Route) -> web.StreamResponse:
        form, kind = wanted(request.headers.get("Accept", "")), route.kind
        deletion = deletion_options(request.query, await _body(request), _content_type(request))
        if route.name:
            done = self._registry.delete(kind, route.namespace, route.name, deletion)
            if done.is_gone and not kind.returns_deleted:
                return self._encoded(request, msgspec.json.encode(_success(kind, done.object)), form)
            return self._told(request, kind, done, form)
        if (kind.is_namespaced and not route.namespace) or (not kind.is_namespaced and kind.plural == "namespaces"):
            raise not_allowed()
        options = list_options(kind, request.query, namespace=route.namespace)
        found = listed(self._store, kind.stored, options)
        for (namespace, name), _ in found.records:
            self._registry.delete(kind, namespace, name, deletion)
        return self._list(request, kind, found, form)

    # --- answers ------------------------------------------------------------------------------------------------------

    def _told(
        self, request: web.BaseRequest, kind: Kind, done: Written, form: Wanted, warnings: Sequence[str] = ()
    ) -> web.StreamResponse:
        headers = [("Warning", f'299 - "{_escaped(each)}"') for each in warnings]
        thing = kind.from_stored(done.object)
        return self._shaped(request, kind, thing, form, status=201 if done.is_new else 200, headers=headers)

    def _shaped(
        self,
        request: web.BaseRequest,
        kind: Kind,
        thing: Object,
        form: Wanted,
        *,
        status: int = 200,
        headers: Sequence[tuple[str, str]] = (),
    ) -> web.StreamResponse:
        document = thing
        if form.shape == "Table":
            include = tables.inclusion(request.query.get("includeObject", ""))
            document = tables.table_of_one(kind, thing, include=include, now=self._registry.now, version=form.version)
        elif form.shape == "PartialObjectMetadataList":
            told = f"you requested {form.shape}, but the requested object is not a list (*{_in_go(kind)})"
            raise not_acceptable(told)
        elif form.shape:
            document = tables.partial(thing, version=form.version)
        return self._encoded(request, msgspec.json.encode(document), form, status=status, headers=headers)

    def _encoded(
        self,
        request: web.BaseRequest,
        body: bytes,
        form: Wanted,
        *,
        status: int = 200,
        headers: Sequence[tuple[str, str]] = (),
    ) -> web.Response:
        content_type = JSON
        if form.is_yaml:
            content_type, body = YAML, _as_yaml(body)
        elif _is_pretty(request):
            body = _pretty(body)
        else:
            body += b"\n"
        told = [("Content-Type", content_type), ("Cache-Control", "no-cache, private"), *headers]
        if len(body) > _GZIP_FROM and "gzip" in request.headers.get("Accept-Encoding", ""):
            told += [("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding")]
            body = gzip.compress(body, compresslevel=1, mtime=0)
        return web.Response(body=body, status=status, headers=told)


# --- requests ---------------------------------------------------------------------------------------------------------


async def _body(request: web.BaseRequest) -> bytes:
    if (request.content_length or 0) > LIMIT:
        raise too_long()
    body = bytearray()
    while block := await request.content.readany():
        body += block
        if len(body) > LIMIT:
            raise too_long()
    return bytes(body)


def _healthy(request: web.BaseRequest) -> web.Response:
    if "verbose" not in request.query:
        return web.Response(text="ok")
    return web.Response(text=f"[+]ping ok\n{request.path.rpartition('/')[2]} check passed\n")


def _published(request: web.BaseRequest, path: str, found: published.Description) -> web.Response:
    """Under its hash a description never changes."""
    asked = request.query.get("hash")
    headers = {"Content-Type": JSON, "ETag": f'"{found.digest}"'}
    if asked is not None and asked != found.digest:
        return web.Response(status=301, headers={"Location": f"{path}?hash={found.digest}"})
    if asked is not None:
        headers["Cache-Control"] = "public, immutable"
    return web.Response(body=found.body, headers=headers)


def _content_type(request: web.BaseRequest) -> str:
    return media_type(request.headers.get("Content-Type", ""))


def _write(request: web.BaseRequest, route: Route, what: str) -> Write:
    agent = request.headers.get("User-Agent", "")
    return write_options(request.query, user_agent=agent, subresource=route.subresource, what=what)


# --- answers ----------------------------------------------------------------------------------------------------------


def _refused(refusal: Refusal, request: web.BaseRequest) -> web.Response:
    body = msgspec.json.encode(refusal.status())
    headers = {"Content-Type": JSON}
    after = (refusal.details or {}).get("retryAfterSeconds")
    if after:
        headers["Retry-After"] = str(after)
    return web.Response(body=_pretty(body) if _is_pretty(request) else body, status=refusal.code, headers=headers)


def _break(request: web.BaseRequest) -> None:
    if request.transport is not None:
        request.transport.abort()


def _in_go(kind: Kind) -> str:
    """``core.Service``, ``discovery.EndpointSlice``."""
    return f"{kind.group.partition('.')[0] or 'core'}.{kind.kind}"


def _success(kind: Kind, thing: Object) -> Object:
    metadata = thing["metadata"]
    details = details_of(kind, metadata["name"], plural=True) | {"uid": metadata["uid"]}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def _without_head(thing: Object) -> Object:
    return {name: value for name, value in thing.items() if name not in ("kind", "apiVersion")}


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _is_pretty(request: web.BaseRequest) -> bool:
    if "pretty" in request.query:
        return is_true(request.query["pretty"])
    return request.headers.get("User-Agent", "").startswith(_PRETTY)


def _pretty(body: bytes) -> bytes:
    return json.dumps(json.loads(body), indent=2, ensure_ascii=False).encode()


def _as_yaml(body: bytes) -> bytes:
    import yaml

    text: str = yaml.dump(json.loads(body), Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), allow_unicode=True)
    return text.encode()
