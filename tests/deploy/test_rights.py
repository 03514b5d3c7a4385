"""The roles grant what a replica asks an API server for, and nothing else: all of it, as the server sees it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
from tests.builders.objects import with_field
from tests.client.calling import transport
from tests.client.recording import until
from tests.client.serving import access_to
from tests.controller.a_built_in import a_shop
from tests.controller.a_controller import KEPT, Place, fill
from tests.controller.test_controller_program import a_run, over
from tests.deploy.conftest import OWNER, VERBS, Asked
from tests.deploy.manifests import MODES, Right, granted

from zoneward.controller.controller_configuration import Mode
from zoneward.controller.sync import requirements as rights
from zoneward.kube import names
from zoneward.sandbox.server.persistence import new_registry
from zoneward.sandbox.server.sandbox_server import SandboxServer

FREE: Right = ("authorization.k8s.io", "selfsubjectaccessreviews", "create")
"""Everybody who is known to a cluster may ask what they may do (the ClusterRole system:basic-user)."""
ENDPOINTS: set[Right] = {("", "endpoints", verb) for verb in ("get", "create", "update", "delete")}
"""Needed only for Services that were adopted."""
CONFIG_MAPS: set[Right] = {("", "configmaps", verb) for verb in ("create", "patch", "delete")}
"""Granted for one name, which the check at the start does not ask about."""


@asynccontextmanager
async def a_replica(address: str, mode: Mode) -> AsyncIterator[None]:
    """A replica that runs until the block ends."""
    async with a_run(address, mode=mode) as run:
        yield
        await over(run)


async def test_every_granted_permission_is_used_and_no_other_is_needed(asked: Asked) -> None:
    registry = new_registry()
    asked.watch_owners(registry)
    async with SandboxServer(registry) as server, transport(access_to(server.address)) as link:
        sandbox = Place(registry, link)
        fill(sandbox, pods=12)
        asked.is_older = True
        async with a_replica(server.address, Mode.TAKE_OVER):
            await until(lambda: len(sandbox.listed()) == 12)
        asked.is_older = False
        async with a_replica(server.address, Mode.TAKE_OVER):
            await _take_over(sandbox, asked)
    assert asked.rights - {FREE} == granted("take-over") - ENDPOINTS


async def _take_over(sandbox: Place, asked: Asked) -> None:
    sandbox.annotate("cart", {names.SUBSETTING_ANNOTATION: "Auto"})
    await until(lambda: len(sandbox.slices()) == 3)
    sandbox.annotate("cart", {})
    await until(lambda: len(sandbox.slices()) == 1)
    # Events that hints are on, and off again, twice.
    for count, annotations in enumerate(2 * ({names.TOPOLOGY_MODE_ANNOTATION: "Auto"}, {}), 1):
        sandbox.annotate("cart", annotations)
        await until(partial(_has_told, sandbox, count))

    def interfere(right: Right, name: str) -> None:
        """Somebody writes the slice at the same time: what we wrote is looked at."""
        if right == ("discovery.k8s.io", "endpointslices", "update"):
            asked.before = lambda _right, _name: None
            sandbox.change(KEPT, "default", name, lambda old: with_field(old, "metadata.labels.touched", "true"))

    asked.before = interfere
    sandbox.make_ready(0, False)
    await until(lambda: len(sandbox.listed()) == 11)


def _has_told(sandbox: Place, times: int) -> bool:
    events = [object_ for object_ in sandbox.objects("events") if object_["reason"].startswith("TopologyAwareRouting")]
    return bool(sum((event.get("series") or {"count": 1})["count"] for event in events) == times)


@pytest.mark.parametrize("mode", MODES)
def test_every_write_permission_is_checked_at_the_start(mode: str) -> None:
    asked = {
        (sandbox.group, "/".join([sandbox.plural, *rest]), VERBS[method])
        for method, sandbox, *rest in rights.PERMISSIONS[Mode(mode)]
    }
    # The election reports a missing permission for the Lease. With --take-over, few Endpoints are written.
    untold = {OWNER, *CONFIG_MAPS} | (ENDPOINTS if mode == "take-over" else set())
    needed = {right for right in granted(mode) if right[1] != "leases" and right[2] in VERBS.values()}
    assert asked == needed - untold
    assert (needed >= CONFIG_MAPS) == (mode == "overlay")


async def test_an_adopted_service_needs_the_permissions_of_the_other_mode(asked: Asked) -> None:
    async with a_shop() as shop:
        await shop.adopting().adopt(endpoints_policy="keep")
        asked.rights.clear()
        async with a_replica(shop.kubeconfig["clusters"][0]["cluster"]["server"], Mode.ONLY_MARKED):
            shop.make_ready(0, False)
            shop.steady.discard("10.0.0.0")
            await until(lambda: "10.0.0.0" not in shop.listed())
            shop.change_service(lambda service: with_field(service, "spec.selector", {"app": "cart"}))
            await until(lambda: not shop.slices(names.MANAGER))
            await until(lambda: not any(name.startswith(names.DOMAIN) for name in shop.words()[1]))
    more = granted("only-marked") - granted("take-over")
    assert more
    assert more <= asked.rights - {FREE} <= granted("only-marked")
