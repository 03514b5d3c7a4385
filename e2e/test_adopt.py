"""One Service taken over and given back beside the running endpoints, slice and mirroring controllers."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import yaml
from e2e.control_plane import SLICE_CONTROLLERS, ControlPlane
from e2e.controllers import ONLY_MARKED, ZonewardController
from e2e.pod_readiness import flipping, set_pod_ready
from e2e.slice_watcher import SliceWatcher
from tests.builders.objects import MANAGED_BY, SERVICE_NAME, a_namespace, a_node, a_pod, a_service
from tests.contract.api import MERGE_PATCH, ApiError, Object

from zoneward.client.auth.kubeconfig import load_client_config
from zoneward.client.transport import Transport
from zoneward.controller.handover.service_handover import HandoverTimeouts, ServiceHandover
from zoneward.kube import names
from zoneward.kube.adoption_marks import ADOPTION_MARKS, SKIP_MIRROR_LABEL
from zoneward.routing.configuration import Configuration

NAMESPACE = "shop"
LABELS = {"app": "cart"}
NUMBER = 6
RULES = [
    {"apiGroups": [""], "resources": ["services"], "verbs": ["get", "patch"]},
    {"apiGroups": [""], "resources": ["endpoints"], "verbs": ["get", "patch", "delete"]},
    {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["list"]},
    {
        "apiGroups": ["discovery.k8s.io"],
        "resources": ["endpointslices"],
        "verbs": ["list", "create", "update", "delete"],
    },
]
DEPLOY = Path(__file__).parents[1] / "deploy"
PROGRAM = Path(__file__).parent / "handover_killed.py"
WRITES = {"adopt": 4, "release": 3}
ADDRESSES = [f"10.1.0.{number}" for number in range(1, NUMBER + 1)]
FLIPPED = 1
STEADY = ADDRESSES[FLIPPED:]
BEFORE = {"metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}}}


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """Six Pods in three zones, and users with the rights that are documented, with all but one of them, and those
    that a deployed controller has."""
    controllers = ("endpoints-controller", *SLICE_CONTROLLERS)
    with ControlPlane(users=("operator", "half", "keeper"), controllers=controllers) as plane:
        api = plane.api()
        api.create_all([a_namespace(NAMESPACE), *(a_node(f"node-{zone}", zone=zone) for zone in "abc")])
        api.create_all(
            a_pod(f"cart-{number}", namespace=NAMESPACE, node=f"node-{'abc'[number % 3]}", ips=[address], labels=LABELS)
            for number, address in enumerate(ADDRESSES, 1)
        )
        plane.allow("operator", RULES)
        plane.allow("half", [rule for rule in RULES if rule["resources"] != ["services"]] + [
            {"apiGroups": [""], "resources": ["services"], "verbs": ["get"]}
        ])  # fmt: skip
        plane.allow("keeper", deployed_rules())
        for user in ("half", "keeper"):
            plane.wait_until(lambda user=user: may_list_nodes(plane, user), what="rights")  # type: ignore[misc]
        yield plane


def deployed_rules() -> list[Object]:
    """Of the ClusterRoles in ``deploy/`` for this mode."""
    files = (DEPLOY / folder / "cluster-role.yaml" for folder in ("base", "only-marked"))
    documents = (document for file in files for document in yaml.safe_load_all(file.read_text()))
    return [rule for each in documents if each["kind"] == "ClusterRole" for rule in each["rules"]]


def may_list_nodes(plane: ControlPlane, user: str) -> bool:
    try:
        plane.api(user).get("/api/v1/nodes")
    except ApiError:
        return False
    return True


class Shop:
    """Services that all select the same Pods, as somebody with all rights sees them."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane, self.api = plane, plane.api()
        # Each call writes the files anew, under the eyes of those that read them.
        self.kubeconfigs = {user: str(plane.kubeconfig(user)) for user in plane.users}

    def create(self, *services: str) -> None:
        for name in services:
            service = a_service(name, namespace=NAMESPACE, selector=LABELS)
            service["metadata"] |= BEFORE["metadata"]
            self.api.create(service)
        self.plane.wait_until(lambda: all(self.is_back(name) for name in services), what="slices of the Services")

    def service(self, name: str) -> Object:
        return self.api.get(f"/api/v1/namespaces/{NAMESPACE}/services/{name}")

    def words(self, name: str) -> tuple[Any, ...]:
        found = self.service(name)
        return found["metadata"].get("labels"), found["metadata"].get("annotations"), found["spec"]

    def slices(self, name: str) -> list[Object]:
        path = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"
        items: list[Object] = self.api.get(path, labelSelector=f"{SERVICE_NAME}={name}")["items"]
        return items

    def managers(self, name: str) -> list[str]:
        return sorted({each["metadata"]["labels"][MANAGED_BY] for each in self.slices(name)})

    def ready(self, name: str) -> set[str]:
        return {
            address
            for each in self.slices(name)
            for one in each["endpoints"] or []
            if one["conditions"]["ready"]
            for address in one["addresses"]
        }

    def endpoints(self, name: str) -> Object | None:
        try:
            return self.api.get(f"/api/v1/namespaces/{NAMESPACE}/endpoints/{name}")
        except ApiError as error:
            if error.code != 404:
                raise
            return None

    def conditions(self, name: str) -> list[str]:
        """Their types."""
        return [each["type"] for each in self.service(name)["status"].get("conditions") or ()]

    def subset(self, name: str) -> set[str]:
        """What the Endpoints object lists as ready."""
        endpoints = self.endpoints(name)
        assert endpoints is not None
        return {one["ip"] for each in endpoints.get("subsets", ()) for one in each.get("addresses", ())}

    def is_back(self, name: str) -> bool:
        """As if it had never been adopted."""
        labels, annotations, spec = self.words(name)
        endpoints = self.endpoints(name)
        return (
            labels == BEFORE["metadata"]["labels"]
            and annotations == BEFORE["metadata"]["annotations"]
            and spec["selector"] == LABELS
            and self.managers(name) == [names.BUILT_IN_MANAGER]
            and self.ready(name) == set(ADDRESSES)
            and endpoints is not None
            and SKIP_MIRROR_LABEL not in endpoints["metadata"]["labels"]
            and len(endpoints["subsets"][0]["addresses"]) == NUMBER
        )

    def is_ours(self, name: str) -> bool:
        labels, annotations, spec = self.words(name)
        return (
            labels == {**BEFORE["metadata"]["labels"], SKIP_MIRROR_LABEL: "true"}
            and set(annotations) == {*BEFORE["metadata"]["annotations"], *ADOPTION_MARKS}
            and "selector" not in spec
            and self.managers(name) == [names.MANAGER]
        )

    def make_ready(self, number: int, ready: bool) -> None:
        set_pod_ready(self.api, NAMESPACE, f"cart-{number}", ready)

    def flipping(self) -> AbstractContextManager[None]:
        return flipping(self.api, NAMESPACE, f"cart-{FLIPPED}")


@pytest.fixture(scope="module")
def shop(plane: ControlPlane) -> Shop:
    return Shop(plane)


def zoneward(shop: Shop, *arguments: str, user: str = "operator") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "KUBECONFIG": shop.kubeconfigs[user]}
    command = [sys.executable, "-m", "zoneward", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=90)


async def way(shop: Shop, name: str, key: tuple[str, str]) -> str:
    """In this process, without waiting long for the built-in controller's last moves."""
    access = load_client_config(kubeconfig=shop.kubeconfigs["operator"], environment=os.environ)
    async with Transport(access) as transport:
        told: list[str] = []
        adopting = ServiceHandover(
            transport, key, configuration=Configuration(), report=told.append, timeouts=HandoverTimeouts(settling=0.5)
        )
        return await (adopting.adopt(endpoints_policy="keep") if name == "adopt" else adopting.release())


def test_there_and_back_while_a_pod_flips_no_endpoint_is_missing(plane: ControlPlane, shop: Shop) -> None:
    shop.create("cart")
    with SliceWatcher(shop.api, NAMESPACE, ["cart"], steady=STEADY) as watcher:
        with shop.flipping():
            done = zoneward(shop, "adopt", f"{NAMESPACE}/cart")
            assert done.returncode == 0, done.stderr
        assert shop.is_ours("cart")
        endpoints = shop.endpoints("cart")
        assert endpoints is not None
        assert endpoints["metadata"]["labels"][SKIP_MIRROR_LABEL] == "true"
        # No controller runs that would list the Pod which has just turned ready: the command does it as well.
        done = zoneward(shop, "adopt", f"{NAMESPACE}/cart")
        assert done.returncode == 0, done.stderr
        assert shop.ready("cart") == set(ADDRESSES)
        with shop.flipping():
            done = zoneward(shop, "release", f"{NAMESPACE}/cart")
            assert done.returncode == 0, done.stderr
        plane.wait_until(lambda: shop.is_back("cart"), what="the Service as it was")
    assert watcher.missing == []
    assert watcher.events > 10
    # Seen: 0.08 s. Longer, it is chance whose hints count.
    assert watcher.twice["cart"] < 5
    # It is not stalled: a Pod that changes is still written.
    shop.make_ready(NUMBER, False)
    plane.wait_until(lambda: shop.ready("cart") == set(ADDRESSES[:-1]), what="the Pod that is not ready")
    shop.make_ready(NUMBER, True)
    plane.wait_until(lambda: shop.is_back("cart"), what="all Pods")


def test_the_endpoints_object_is_deleted_where_that_is_asked_for_and_comes_back(
    plane: ControlPlane, shop: Shop
) -> None:
    shop.create("gone")
    done = zoneward(shop, "adopt", f"{NAMESPACE}/gone", "--endpoints=delete")
    assert done.returncode == 0, done.stderr
    assert shop.is_ours("gone")
    assert shop.endpoints("gone") is None
    done = zoneward(shop, "release", f"{NAMESPACE}/gone")
    assert done.returncode == 0, done.stderr
    plane.wait_until(lambda: shop.is_back("gone"), what="the Service as it was")


def test_killed_before_any_write_either_way_goes_on(plane: ControlPlane, shop: Shop) -> None:
    ways = [(name, writes) for name, most in WRITES.items() for writes in range(1, most)]
    cuts = [(f"{name}-{writes}-{then}", name, writes, then) for name, writes in ways for then in WRITES]
    shop.create(*(name for name, *_ in cuts))

    def cut(case: tuple[str, str, int, str]) -> None:
        service, name, writes, then = case
        key = (NAMESPACE, service)
        if name == "release":
            asyncio.run(way(shop, "adopt", key))
        killed = subprocess.run(
            [sys.executable, PROGRAM, shop.kubeconfigs["operator"], name, "/".join(key), str(writes)],
            capture_output=True, text=True, check=False, timeout=90,
        )  # fmt: skip
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        asyncio.run(way(shop, then, key))
        if then == "adopt":
            assert shop.is_ours(service)
            asyncio.run(way(shop, "release", key))
        plane.wait_until(lambda: shop.is_back(service), what=f"{service} as it was")

    watcher = SliceWatcher(shop.api, NAMESPACE, [name for name, *_ in cuts], steady=ADDRESSES)
    with watcher, ThreadPoolExecutor(len(cuts)) as threads:
        for done in [threads.submit(cut, case) for case in cuts]:
            done.result()
    assert watcher.missing == []


def test_a_selector_that_is_applied_again_is_released_and_nothing_is_mirrored(plane: ControlPlane, shop: Shop) -> None:
    shop.create("applied")
    with SliceWatcher(shop.api, NAMESPACE, ["applied"], steady=ADDRESSES) as watcher:
        asyncio.run(way(shop, "adopt", (NAMESPACE, "applied")))
        assert shop.is_ours("applied")
        patch = {"spec": {"selector": LABELS}}
        shop.api.patch(shop.service("applied"), patch, content_type=MERGE_PATCH)
        asyncio.run(way(shop, "release", (NAMESPACE, "applied")))
        plane.wait_until(lambda: shop.is_back("applied"), what="the Service as it was")
    assert watcher.missing == []


def test_a_running_controller_keeps_what_is_adopted_and_gives_back_what_is_applied_again(
    plane: ControlPlane, shop: Shop
) -> None:
    shop.create("followed", "left")
    shop.api.patch(shop.service("followed"), {"spec": {"trafficDistribution": "PreferSameZone"}})
    left = shop.words("left"), {each["metadata"]["uid"] for each in shop.slices("left")}
    with (
        SliceWatcher(shop.api, NAMESPACE, ["followed"], steady=STEADY) as watcher,
        ZonewardController(plane, mode=ONLY_MARKED, user="keeper") as controller,
    ):
        with shop.flipping():
            done = zoneward(shop, "adopt", f"{NAMESPACE}/followed")
            assert done.returncode == 0, done.stderr
        for ready in (False, True):
            shop.make_ready(FLIPPED, ready)
            wanted = set(ADDRESSES if ready else STEADY)
            controller.wait_until(lambda wanted=wanted: shop.ready("followed") == wanted, what="slices", patience=5)  # type: ignore[misc]
            controller.wait_until(lambda wanted=wanted: shop.subset("followed") == wanted, what="Endpoints")  # type: ignore[misc]
            assert shop.is_ours("followed")
        controller.wait_until(lambda: len(shop.conditions("followed")) == 2, what="conditions")
        with shop.flipping():
            patch = {"spec": {"selector": LABELS}}
            shop.api.patch(shop.service("followed"), patch, content_type=MERGE_PATCH)
            controller.wait_until(lambda: shop.managers("followed") == [names.BUILT_IN_MANAGER], what="ours gone")
        controller.wait_until(lambda: shop.is_back("followed"), what="the Service as it was", patience=10)
        # Nobody makes any of ours again.
        shop.make_ready(FLIPPED, False)
        controller.wait_until(lambda: shop.ready("followed") == set(STEADY), what="the Pod that is not ready")
        shop.make_ready(FLIPPED, True)
        controller.wait_until(lambda: shop.is_back("followed"), what="all Pods")
        controller.wait_until(lambda: shop.conditions("followed") == [], what="none of our conditions")
        assert (shop.words("left"), {each["metadata"]["uid"] for each in shop.slices("left")}) == left
    assert watcher.missing == []
    assert watcher.twice["followed"] < 5


def test_nothing_is_mirrored_while_it_is_ours(shop: Shop) -> None:
    shop.create("mirrored")
    asyncio.run(way(shop, "adopt", (NAMESPACE, "mirrored")))
    seen: set[Sequence[str]] = set()
    end = time.monotonic() + 2
    while time.monotonic() < end:
        seen.add(tuple(shop.managers("mirrored")))
        time.sleep(0.05)
    assert seen == {(names.MANAGER,)}
    asyncio.run(way(shop, "release", (NAMESPACE, "mirrored")))


def test_without_one_of_the_rights_the_rule_is_told_before_anything_is_written(shop: Shop) -> None:
    shop.create("refused")
    version = shop.service("refused")["metadata"]["resourceVersion"]
    for command in ("adopt", "release"):
        done = zoneward(shop, command, f"{NAMESPACE}/refused", user="half")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.count("\n") == 1
        assert '{apiGroups: [""], resources: ["services"], verbs: ["patch"]}' in done.stderr
    assert shop.service("refused")["metadata"]["resourceVersion"] == version
