"""Commands on a real API server, with exactly the permissions of ``examples/cluster-role.yaml``."""

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from e2e.control_plane import SLICE_CONTROLLERS, ControlPlane
from e2e.pods import LABELS, Shop, a_shop
from e2e.watching import Watching
from tests.builders.objects import a_service
from tests.contract.api import MERGE_PATCH, Object
from tests.deploy.manifests import ROOT

ROLE = yaml.safe_load((ROOT / "examples" / "cluster-role.yaml").read_text())
LIST_ONLY = [{**rule, "verbs": ["list"]} for rule in ROLE["rules"]]
CORE, DISCOVERY = ROLE["rules"]
WITHOUT_PODS = [{**CORE, "resources": [resource for resource in CORE["resources"] if resource != "pods"]}, DISCOVERY]
FLIPPED = "cart-0"
PODS = 9


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A Service with nine Pods in three zones that asks for Auto, with slices of the built-in controller."""
    with ControlPlane(users=("reader", "half", "lister"), controllers=SLICE_CONTROLLERS) as plane:
        api = plane.api()
        auto = {"service.kubernetes.io/topology-mode": "Auto"}
        api.create_all([*a_shop("shop", PODS), a_service("cart", namespace="shop", selector=LABELS, annotations=auto)])
        for user, rules in (("reader", ROLE["rules"]), ("lister", LIST_ONLY), ("half", WITHOUT_PODS)):
            plane.allow(user, rules, until="/api/v1/services")
        plane.wait_until(lambda: has_hints(Shop(api, "shop")), what="its slices")
        yield plane


def has_hints(shop: Shop) -> bool:
    endpoints = [endpoint for slice_ in shop.slices() for endpoint in slice_["endpoints"] or ()]
    return len(endpoints) == PODS == sum("hints" in endpoint for endpoint in endpoints)


def set_mode(plane: ControlPlane, value: str | None) -> None:
    patch = {"metadata": {"annotations": {"service.kubernetes.io/topology-mode": value}}}
    plane.api().patch(a_service("cart", namespace="shop"), patch, content_type=MERGE_PATCH)


def test_commands_need_no_more_than_their_role(plane: ControlPlane) -> None:
    done = plane.zoneward("plan", "-n", "shop", "-o", "json", user="lister")
    (decision,) = json.loads(done.stdout)["decisions"]
    assert (decision["service"], decision["active"], decision["endpoints"]) == ("cart", True, PODS)
    assert decision["inZoneTraffic"] == 1
    for command in (("compare", "-A"), ("route", "-A", "--node", "node-a")):
        assert "cart" in plane.zoneward(*command, "-o", "json", user="reader").stdout


@pytest.mark.parametrize(
    ("user", "command", "rule"),
    [
        ("half", ("plan", "-A"), '{apiGroups: [""], resources: ["pods"], verbs: ["list"]}'),
        ("lister", ("plan", "-n", "shop", "--watch", "-o", "json"), 'verbs: ["watch"]'),
    ],
)
def test_missing_permission_is_reported(plane: ControlPlane, user: str, command: tuple[str, ...], rule: str) -> None:
    done = plane.zoneward(*command, user=user, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert rule in done.stderr


def changed(watch: Watching, change: Callable[[], None], **fields: object) -> Object:
    """The decision after a change, once the built-in controller has written the slices too: with these fields. It may
    write them so late that the change of the Pod or the Service is printed before."""
    lines = watch.lines
    change()
    wanted = fields | {"slices": {"create": 0, "update": 0, "delete": 0, "unchanged": 1}}
    printed = watch.lines_after(len(lines), lambda decision: decision | wanted == decision)
    assert [type_ for type_, _ in printed] in (["CHANGED"], ["CHANGED"] * 2)
    decisions = [lines[-1].get("decision"), *(decision for _, decision in printed)]
    assert all(one != other for one, other in pairwise(decisions))
    return printed[-1][1]


def test_watch_reports_each_change_once(plane: ControlPlane, tmp_path: Path) -> None:
    with Watching(plane, tmp_path, "-n", "shop", "--proxy", "current", user="reader") as watch:
        added, synced = watch.lines
        assert (added["type"], added["decision"]["service"]) == ("ADDED", "cart")
        assert (synced["type"], synced["services"], synced["decisions"]) == ("SYNCED", 1, 1)
        shop, all_ready = Shop(plane.api(), "shop"), added["decision"]
        try:
            assert changed(watch, lambda: shop.make_ready(FLIPPED, False), endpoints=PODS - 1)["service"] == "cart"
            assert changed(watch, lambda: shop.make_ready(FLIPPED, True), endpoints=PODS) == all_ready
            changed(watch, lambda: set_mode(plane, None), active=False)
            assert changed(watch, lambda: set_mode(plane, "Auto"), active=True) == all_ready
        finally:
            shop.make_ready(FLIPPED, True)
            set_mode(plane, "Auto")
        assert watch.notes == []


def test_advice_has_the_predicted_effect(plane: ControlPlane) -> None:
    """The one Service asks for nothing, and its action is applied as its patch says."""
    api, cart = plane.api(), a_service("cart", namespace="shop")

    def advice() -> Any:
        return json.loads(
            plane.zoneward("advise", "-n", "shop", "--proxy", "current", "-o", "json", user="reader").stdout
        )

    # Slices may be those of an earlier test.
    plane.wait_until(lambda: advice()["summary"]["inZone"] > 0.9, what="slices with hints")
    set_mode(plane, None)
    try:
        plane.wait_until(lambda: advice()["summary"]["inZone"] < 0.5, what="slices without hints")
        (action,) = [action for action in advice()["actions"] if action["view"] == "kubernetes"]
        (patch,) = action["patches"]
        assert patch["fields"] == {"spec": {"trafficDistribution": "PreferSameZone"}}
        promised = action["effect"]["inZoneAfter"]
        assert promised > 0.9
        api.patch(cart, patch["fields"], content_type=MERGE_PATCH)
        plane.wait_until(lambda: advice()["summary"]["inZone"] == promised, what="slices as promised")
    finally:
        api.patch(cart, {"spec": {"trafficDistribution": None}}, content_type=MERGE_PATCH)
        set_mode(plane, "Auto")
