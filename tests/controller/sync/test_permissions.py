"""Rights are asked for before the first write, and a server that cannot be asked is not in the way."""

import asyncio
import json
from datetime import UTC, datetime

import pytest
from aiohttp import web
from tests.client.calling import transport
from tests.client.serving import access_to, served

from zoneward.client.api_errors import CallFailed, Forbidden, ServerFault
from zoneward.client.error_messages import to_input_error
from zoneward.client.resources import SERVICES, SLICES
from zoneward.controller.sync.permissions import Permission, check_permissions

REQUIRED_PERMISSIONS: tuple[Permission, ...] = (
    ("PATCH", SERVICES),
    ("POST", SLICES),
    ("PUT", SLICES),
    ("DELETE", SLICES),
)


def asked(*, denied: str = "", status: int = 201) -> tuple[list[object], CallFailed | None, str]:
    """What a server was asked for, what came of it, and how that is told."""

    async def run() -> tuple[list[object], CallFailed | None, str]:
        seen: list[object] = []

        async def review(request: web.BaseRequest) -> web.Response:
            assert (request.method, request.path) == (
                "POST",
                "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            )
            wanted = json.loads(await request.read())["spec"]["resourceAttributes"]
            seen.append((wanted["verb"], wanted["group"], wanted["resource"], wanted["namespace"]))
            return web.json_response({"status": {"allowed": wanted["verb"] != denied}}, status=status)

        async with served(review) as server, transport(access_to(server.url)) as connection:
            try:
                await check_permissions(connection, REQUIRED_PERMISSIONS, namespace="shop")
            except CallFailed as error:
                return seen, error, str(to_input_error(error, connection.access, now=datetime.now(UTC)))
        return seen, None, ""

    return asyncio.run(run())


def test_every_right_is_asked_for() -> None:
    seen, error, _ = asked()
    assert error is None
    assert sorted(seen) == [  # type: ignore[type-var]
        ("create", "discovery.k8s.io", "endpointslices", "shop"),
        ("delete", "discovery.k8s.io", "endpointslices", "shop"),
        ("patch", "", "services", "shop"),
        ("update", "discovery.k8s.io", "endpointslices", "shop"),
    ]


@pytest.mark.parametrize(
    ("denied", "rule"),
    [
        ("patch", '{apiGroups: [""], resources: ["services"], verbs: ["patch"]}'),
        ("create", '{apiGroups: ["discovery.k8s.io"], resources: ["endpointslices"], verbs: ["create"]}'),
        ("delete", '{apiGroups: ["discovery.k8s.io"], resources: ["endpointslices"], verbs: ["delete"]}'),
    ],
)
def test_one_that_is_missing_is_told_with_the_rule_that_grants_it(denied: str, rule: str) -> None:
    _, error, told = asked(denied=denied)
    assert isinstance(error, Forbidden)
    assert told.endswith(f"in namespace shop (403); a Role with this rule grants it: {rule}")


@pytest.mark.parametrize("status", [403, 404, 405])
def test_a_server_that_cannot_be_asked_leaves_it_to_the_writes(status: int) -> None:
    assert asked(denied="patch", status=status)[1] is None


async def test_a_subresource_is_asked_for_as_one() -> None:
    seen: list[object] = []

    async def review(request: web.BaseRequest) -> web.Response:
        seen.append(json.loads(await request.read())["spec"]["resourceAttributes"])
        return web.json_response({"status": {"allowed": False}}, status=201)

    async with served(review) as server, transport(access_to(server.url)) as connection:
        with pytest.raises(Forbidden) as caught:
            await check_permissions(connection, [("PATCH", SERVICES, "status")], namespace="")
        told = str(to_input_error(caught.value, connection.access, now=datetime.now(UTC)))
    assert told.endswith('{apiGroups: [""], resources: ["services/status"], verbs: ["patch"]}')
    assert seen == [{"namespace": "", "verb": "patch", "group": "", "resource": "services", "subresource": "status"}]


def test_a_server_that_fails_is_told() -> None:
    assert isinstance(asked(status=500)[1], ServerFault)
