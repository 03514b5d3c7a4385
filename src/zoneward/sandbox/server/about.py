"""Answers about the server itself: what it has, and how its objects are described."""

from collections.abc import Sequence
from typing import Any

import msgspec
from aiohttp import web

from zoneward.sandbox.server import discovery, published
from zoneward.sandbox.server.answers import described, encoded
from zoneward.sandbox.server.kinds import Kind
from zoneward.sandbox.server.negotiation import wanted
from zoneward.sandbox.server.refusals import no_such_resource, not_allowed

Object = dict[str, Any]


def about_the_server(request: web.BaseRequest, path: str, kinds: Sequence[Kind], *, address: str) -> web.StreamResponse:
    """For a path without its last slash; ``address`` is ``host:port``. Raises Refusal."""
    if path == "/openapi/v2":
        return web.Response(body=published.VERSION_2, headers={"Content-Type": published.VERSION_2_TYPE})
    form = wanted(request.headers.get("Accept", "").replace("application/vnd.kubernetes.protobuf", ""))
    document: Object | None = None
    if path in ("/api", "/apis") and form.is_aggregated:
        body = msgspec.json.encode(discovery.aggregated(kinds, core=path == "/api"))
        return web.Response(body=body, headers={"Content-Type": discovery.AGGREGATED})
    match path.strip("/").split("/"):
        case [""]:
            document = discovery.paths(kinds)
        case ["version"]:
            document = discovery.version()
        case ["api"]:
            document = discovery.core_versions(address=address)
        case ["apis"]:
            document = discovery.groups(kinds)
        case ["apis", group]:
            document = discovery.group(kinds, group)
        case ["api", version]:
            document = discovery.resources(kinds, version)
        case ["apis", group, version]:
            document = discovery.resources(kinds, f"{group}/{version}")
        case ["openapi", "v3"]:
            document = published.root(kinds)
        case ["openapi", "v3", *rest] if found := published.description("/".join(rest)):
            return described(request, found)
        case ["openapi", "v3", *_]:
            return web.Response(status=404)
    groups = ("/api/", *(f"/apis/{kind.group}/" for kind in kinds if kind.group))
    if document is None and path.startswith(groups):
        raise no_such_resource()
    if document is not None and request.method != "GET":
        raise not_allowed()
    if document is None:
        return web.Response(status=404, text="404 page not found\n")
    return encoded(request, msgspec.json.encode(document), form)
