"""Adopt and release one Service beside the running endpoints, slice and mirroring controllers."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from e2e.control_plane import SLICE_CONTROLLERS, ControlPlane
from e2e.controllers import ONLY_MARKED, ZonewardController
from e2e.pods import LABELS, Shop, a_shop, address
from e2e.recording import Recording
from tests.builders.objects import a_service
from tests.contract.api import MERGE_PATCH, Object
from tests.deploy.manifests import DEPLOY

from zoneward.kube import names
from zoneward.kube.adoption_marks import ADOPTION_MARKS, SKIP_MIRROR_LABEL

NAMESPACE = "shop"
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
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["list"]},
]
ADDRESSES = [address(index) for index in range(NUMBER)]
FLIPPED = "cart-0"
STEADY = ADDRESSES[1:]
BEFORE = {"labels": {"team": "a"}, "annotations": {"note": "b"}}
APPLIED = {"spec": {"selector": LABELS}}


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """Six Pods in three zones, and users with the documented permissions, with all but one of them, and with those of a
    deployed controller."""
    controllers = ("endpoints-controller", *SLICE_CONTROLLERS)
    with ControlPlane(users=("operator", "half", "keeper"), controllers=controllers) as plane:
        plane.api().create_all(a_shop(NAMESPACE, NUMBER))
        half = [{"apiGroups": [""], "resources": ["services"], "verbs": ["get"]}, *RULES[1:]]
        for user, rules in (("operator", RULES), ("half", half), ("keeper", deployed_rules())):
            plane.allow(user, rules, until="/api/v1/nodes")
        yield plane


def deployed_rules() -> list[Object]:
    """The rules of the ClusterRoles in ``deploy/`` for this mode."""
    files = (DEPLOY / folder / "cluster-role.yaml" for folder in ("base", "only-marked"))
    documents = (document for file in files for document in yaml.safe_load_all(file.read_text()))
    return [rule for document in documents if document["kind"] == "ClusterRole" for rule in document["rules"]]


class Adopted(Shop):
    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(plane.api(), NAMESPACE)
        self.plane = plane

    def create(self, *services: str) -> None:
        for name in services:
            self.api.create(
                a_service(name, namespace=NAMESPACE, selector=LABELS)
                | {"metadata": {"name": name, "namespace": NAMESPACE, **BEFORE}}
            )
        self.plane.wait_until(lambda: all(self.is_back(name) for name in services), what="slices of the Services")

    def words(self, name: str) -> tuple[Any, ...]:
        service = self.service(name)
        return (
            service["metadata"].get("labels"),
            service["metadata"].get("annotations"),
            service["spec"],
        )

    def is_back(self, name: str) -> bool:
        """Whether the Service is as it was before it was adopted."""
        labels, annotations, spec = self.words(name)
        endpoints = self.endpoints(name)
        return (
            {"labels": labels, "annotations": annotations} == BEFORE
            and spec.get("selector") == LABELS
            and self.managers(name) == {names.BUILT_IN_MANAGER}
            and self.ready(name) == set(ADDRESSES) == self.listed(name)
            and endpoints is not None
            and SKIP_MIRROR_LABEL not in endpoints["metadata"]["labels"]
        )

    def is_zonewards(self, name: str) -> bool:
        labels, annotations, spec = self.words(name)
        # A running controller adds it with its conditions.
        rest = set(annotations) - {names.REQUESTED_APPROACH_ANNOTATION}
        return (
            labels == {**BEFORE["labels"], SKIP_MIRROR_LABEL: "true"}
            and rest == {*BEFORE["annotations"], *ADOPTION_MARKS}
            and "selector" not in spec
            and self.managers(name) == {names.MANAGER}
        )

    def recording(self, name: str) -> Recording:
        return Recording(self.api, NAMESPACE, [name], steady=STEADY)


@pytest.fixture(scope="module")
def shop(plane: ControlPlane) -> Adopted:
    return Adopted(plane)


def check(recording: Recording) -> None:
    """No endpoint was missing, the slices of both controllers overlapped, and none was mirrored."""
    assert recording.missing == []
    assert recording.twice
    assert recording.managers == {names.BUILT_IN_MANAGER, names.MANAGER}


def test_no_endpoint_is_missing_during_adopt_and_release(plane: ControlPlane, shop: Adopted) -> None:
    shop.create("cart")
    with shop.recording("cart") as recording:
        with shop.flipping(FLIPPED):
            plane.zoneward("adopt", "--force", f"{NAMESPACE}/cart", user="operator")
        assert shop.is_zonewards("cart")
        endpoints = shop.endpoints("cart")
        assert endpoints is not None
        assert endpoints["metadata"]["labels"][SKIP_MIRROR_LABEL] == "true"
        # No controller of Zoneward runs: another `adopt` lists the Pod that has become ready.
        plane.zoneward("adopt", "--force", f"{NAMESPACE}/cart", user="operator")
        assert shop.ready("cart") == set(ADDRESSES)
        with shop.flipping(FLIPPED):
            plane.zoneward("release", f"{NAMESPACE}/cart", user="operator")
        plane.wait_until(lambda: shop.is_back("cart"), what="the Service as it was")
    check(recording)
    # The built-in controllers still write changes of Pods.
    shop.make_ready("cart-5", False)
    plane.wait_until(lambda: shop.ready("cart") == set(ADDRESSES[:-1]), what="the Pod that is not ready")
    shop.make_ready("cart-5", True)
    plane.wait_until(lambda: shop.is_back("cart"), what="all Pods")


def test_endpoints_object_is_deleted_with_the_option_and_created_again(plane: ControlPlane, shop: Adopted) -> None:
    shop.create("gone")
    plane.zoneward("adopt", "--force", f"{NAMESPACE}/gone", "--endpoints=delete", user="operator")
    assert shop.is_zonewards("gone")
    assert shop.endpoints("gone") is None
    plane.zoneward("release", f"{NAMESPACE}/gone", user="operator")
    plane.wait_until(lambda: shop.is_back("gone"), what="the Service as it was")


def test_controller_keeps_adopted_services_and_releases_one_with_a_selector(plane: ControlPlane, shop: Adopted) -> None:
    shop.create("followed", "left")
    shop.api.patch(shop.service("followed"), {"spec": {"trafficDistribution": "PreferSameZone"}})
    left = shop.words("left"), {slice_["metadata"]["uid"] for slice_ in shop.slices("left")}
    with (
        shop.recording("followed") as recording,
        ZonewardController(plane, mode=ONLY_MARKED, user="keeper") as controller,
    ):
        wait = controller.wait_until
        with shop.flipping(FLIPPED):
            plane.zoneward("adopt", "--force", f"{NAMESPACE}/followed", user="operator")
        for ready, wanted in ((False, set(STEADY)), (True, set(ADDRESSES))):
            shop.make_ready(FLIPPED, ready)
            wait(lambda wanted=wanted: shop.ready("followed") == wanted == shop.listed("followed"), what="the Pod")  # type: ignore[misc]
            assert shop.is_zonewards("followed")
        wait(lambda: len(shop.conditions("followed")) == 2, what="conditions")
        with shop.flipping(FLIPPED):
            shop.api.patch(shop.service("followed"), APPLIED, content_type=MERGE_PATCH)
            wait(lambda: shop.managers("followed") == {names.BUILT_IN_MANAGER}, what="Zoneward's slices gone")
        wait(lambda: shop.is_back("followed"), what="the Service as it was")
        # Zoneward does not create its slices again.
        shop.make_ready(FLIPPED, False)
        wait(lambda: shop.ready("followed") == set(STEADY), what="the Pod that is not ready")
        shop.make_ready(FLIPPED, True)
        wait(lambda: shop.is_back("followed"), what="all Pods")
        wait(lambda: not shop.conditions("followed"), what="no conditions of Zoneward")
        assert (shop.words("left"), {slice_["metadata"]["uid"] for slice_ in shop.slices("left")}) == left
    check(recording)


def test_missing_permission_is_reported_before_anything_is_written(plane: ControlPlane, shop: Adopted) -> None:
    shop.create("refused")
    version = shop.service("refused")["metadata"]["resourceVersion"]
    for command in (("adopt", "--force"), ("release",)):
        done = plane.zoneward(*command, f"{NAMESPACE}/refused", user="half", check=False)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.count("\n") == 1
        assert '{apiGroups: [""], resources: ["services"], verbs: ["patch"]}' in done.stderr
    assert shop.service("refused")["metadata"]["resourceVersion"] == version
