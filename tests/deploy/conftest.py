"""Servers that note what they are asked for."""

import pytest
from aiohttp import web
from tests.deploy.asking import Asked

from zoneward.sandbox.server.http_handler import ApiHandler


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
