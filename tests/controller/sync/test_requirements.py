"""Permissions are checked before the first write, and a server that cannot be asked does not block it."""

import json
from datetime import UTC, datetime

import pytest
from aiohttp import web
from tests.client.calling import transport
from tests.client.serving import access_to, served

from zoneward.client.api_errors import CallFailed, Forbidden, ServerFault
from zoneward.client.error_messages import to_input_error
from zoneward.client.resources import SERVICES, SLICES
from zoneward.controller.sync.requirements import Permission, check_permissions

NEEDED: tuple[Permission, ...] = (
    ("PATCH", SERVICES),
    ("PATCH", SERVICES, "status"),
    ("POST", SLICES),
    ("PUT", SLICES),
    ("DELETE", SLICES),
)
ASKED = [
    ["create", "discovery.k8s.io", "endpointslices", "shop"],
    ["delete", "discovery.k8s.io", "endpointslices", "shop"],
    ["patch", "", "services", "shop"],
    ["patch", "", "services", "shop", "status"],
    ["update", "discovery.k8s.io", "endpointslices", "shop"],
]


async def asked(*, denied: str = "", status: int = 201) -> tuple[list[list[str]], CallFailed | None, str]:
    """The permissions that a server was asked for, the failure, and the message about it."""
    seen: list[list[str]] = []

    async def review(request: web.BaseRequest) -> web.Response:
        assert (request.method, request.path) == ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
        wanted = json.loads(await request.read())["spec"]["resourceAttributes"]
        names = ("verb", "group", "resource", "namespace", "subresource")
        seen.append([wanted[name] for name in names if name in wanted])
        is_allowed = denied not in (wanted["verb"], wanted.get("subresource"))
        return web.json_response({"status": {"allowed": is_allowed}}, status=status)

    async with served(review) as server, transport(access_to(server.url)) as connection:
        try:
            await check_permissions(connection, NEEDED, namespace="shop")
        except CallFailed as error:
            return seen, error, str(to_input_error(error, connection.access, now=datetime.now(UTC)))
    return seen, None, ""


@pytest.mark.parametrize(
    ("denied", "rule"),
    [
        ("nothing", None),
        ("status", '{apiGroups: [""], resources: ["services/status"], verbs: ["patch"]}'),
        ("create", '{apiGroups: ["discovery.k8s.io"], resources: ["endpointslices"], verbs: ["create"]}'),
    ],
)
async def test_a_missing_permission_is_an_error_with_the_rule_that_grants_it(denied: str, rule: str | None) -> None:
    seen, error, message = await asked(denied=denied)
    assert sorted(seen) == ASKED
    assert isinstance(error, Forbidden) == (rule is not None)
    assert rule is None or message.endswith(f"in namespace shop (403); a Role with this rule grants it: {rule}")


async def test_a_server_without_the_check_is_accepted_and_a_failing_one_is_an_error() -> None:
    for status in (403, 404, 405):
        assert (await asked(denied="patch", status=status))[1] is None
    assert isinstance((await asked(status=500))[1], ServerFault)
