"""Servers that note the permissions that their clients need."""

from collections.abc import Callable
from typing import Final
from urllib.parse import unquote, urlsplit

import pytest
from aiohttp import web
from tests.controller.a_controller import KEPT
from tests.deploy.manifests import Right

from zoneward.sandbox.server.http_handler import ApiHandler
from zoneward.sandbox.server.kinds import Kind
from zoneward.sandbox.server.resource_registry import Registry
from zoneward.sandbox.server.versioned_store import StoredChange

VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
OWNER: Final[Right] = ("", "services/finalizers", "update")


class Asked:
    """What servers were asked for since it was emptied. ``before``: called before each request is answered.
    ``is_older``: servers do not know lists that come by watch.
    """

    def __init__(self) -> None:
        self.rights: set[Right] = set()
        self.is_older = False
        self.before: Callable[[Right, str], None] = lambda _right, _name: None

    def note(self, request: web.BaseRequest) -> None:
        _, prefix, *rest = unquote(urlsplit(request.path_qs).path).strip("/").split("/")
        group = "" if prefix == "api" else rest.pop(0)
        rest = rest[1:]
        if len(rest) > 2 and rest[0] == "namespaces":
            rest = rest[2:]
        resource, name = rest[0], rest[1] if len(rest) > 1 else ""
        subresource = "".join(f"/{part}" for part in rest[2:])
        read = "get" if name else "watch" if request.query.get("watch") in ("1", "true") else "list"
        right = group, resource + subresource, VERBS.get(request.method, read)
        self.rights.add(right)
        self.before(right, name)

    def watch_owners(self, registry: Registry) -> None:
        """A slice that holds up the deletion of its Service: some servers ask for one more right then."""

        def look(kind: Kind, change: StoredChange) -> None:
            if kind.resource == KEPT and change.new is not None:
                owners = change.new.object()["metadata"].get("ownerReferences", ())
                if any(owner.get("blockOwnerDeletion") for owner in owners):
                    self.rights.add(OWNER)

        registry.store.listeners.append(look)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    noted, answer = Asked(), ApiHandler.answer

    async def noting(self: ApiHandler, request: web.BaseRequest) -> web.StreamResponse:
        noted.note(request)
        if noted.is_older and "sendInitialEvents" in request.query:
            words = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
            status = {"kind": "Status", "status": "Failure", "reason": "Invalid", "code": 422, "message": words}
            return web.json_response(status, status=422)
        return await answer(self, request)

    monkeypatch.setattr(ApiHandler, "answer", noting)
    return noted
