"""The policies of the overlay on a real API server: they do what `with_overlay_hints` says, and keep strangers out."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
import pytest
from e2e.control_plane import ControlPlane, User
from e2e.processes import cpu_seconds
from e2e.test_deploy import PODS, Cluster, a_cluster
from tests.builders.objects import a_namespace, a_service, a_slice
from tests.contract.api import MERGE_PATCH, ApiError, Object

from zoneward.controller.overlay_reconciler import MAX_BYTES
from zoneward.kube import names
from zoneward.kube.objects import EndpointSlice
from zoneward.kube.overlay_objects import own_zone_policy
from zoneward.slices.overlay import FamilyOverlay, OverlayHints, encode_entries, read_entries, with_overlay_hints

NAMESPACE: Final = "policies"
BUILT_IN: Final = names.BUILT_IN_MANAGER
CONFIG_MAP: Final[Object] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": names.OVERLAY_CONFIG_MAP, "namespace": NAMESPACE},
}
_MOST_OF_A_CONFIG_MAP: Final = 1024 * 1024
LONG_ZONE: Final = "z" * 62


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with a_cluster(tmp_path_factory.mktemp("policies"), "overlay") as cluster:
        cluster.api.create(a_namespace(NAMESPACE))
        cluster.api.create(CONFIG_MAP)
        yield cluster


class Slices:
    """Writes entries and slices, and waits until the API server has seen the entries."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.api, self._count = cluster, cluster.api, 0

    def set(self, entries: dict[str, str]) -> None:
        """``entries`` and a marker, which a slice of the Service ``marker`` shows once the server knows it."""
        self._count += 1
        marker = f"zone-{self._count}"
        data = entries | {"marker.IPv4": "zones", "marker.10.9.9.9": marker}
        self.api.replace(CONFIG_MAP | {"data": data})
        probe = a_slice("marker", service="marker", manager=BUILT_IN, namespace=NAMESPACE)
        probe |= {"endpoints": [endpoint("10.9.9.9")]}

        def is_known() -> bool:
            stored = self.api.request("POST", self.path, probe, query={"dryRun": "All"})
            return hints_of(stored) == [{"forZones": [{"name": marker}]}]

        self.cluster.plane.wait_until(is_known, what="the ConfigMap in the API server's cache")

    @property
    def path(self) -> str:
        return f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"

    def create(self, slice_: Object) -> Object:
        self._count += 1
        slice_ = slice_ | {"metadata": slice_["metadata"] | {"name": f"s-{self._count}", "namespace": NAMESPACE}}
        return self.api.create(slice_)

    def touch(self, slice_: Object, user: User | str | None = None) -> Object:
        api = self.api if user is None else self.cluster.plane.api(user)
        return api.patch(slice_, {}, content_type=MERGE_PATCH)


@pytest.fixture(scope="module")
def slices(cluster: Cluster) -> Slices:
    return Slices(cluster)


def a_built_in(endpoints: list[Object], *, family: str = "IPv4", manager: str = BUILT_IN) -> Object:
    slice_ = a_slice("any", service="cart", manager=manager, namespace=NAMESPACE)
    return slice_ | {"addressType": family, "endpoints": endpoints}


def endpoint(address: str, zone: str | None = "a", **more: Any) -> Object:
    return {"addresses": [address], "conditions": {"ready": True}, **({"zone": zone} if zone else {}), **more}


def hints_of(slice_: Object) -> list[Object | None]:
    return [one.get("hints") for one in slice_["endpoints"] or ()]


# --- the mutating policy ----------------------------------------------------------------------------------------------


def some_endpoints(random: Random, family: str) -> list[Object]:
    endpoints = []
    for index in range(random.randint(0, 6)):
        address = f"10.0.0.{index}" if family == "IPv4" else f"fd00::{index + 1:x}"
        more: Object = {}
        if random.random() < 0.8:
            more["nodeName"] = f"n{random.randint(1, 3)}"
        if random.random() < 0.3:
            more["hints"] = {"forZones": [{"name": random.choice("abc")}]}
        if random.random() < 0.2:
            more["conditions"] = {"ready": False}
        endpoints.append(endpoint(address, None if random.random() < 0.1 else random.choice("abc"), **more))
    return endpoints


def test_policy_sets_the_hints_of_the_model(slices: Slices) -> None:
    random = Random(5)
    for _ in range(40):
        hints, family = random.choice(list(OverlayHints)), random.choice(("IPv4", "IPv6"))
        endpoints = some_endpoints(random, family)
        exceptions = {
            one["addresses"][0]: tuple(sorted(random.sample("abcdefgh", random.randint(1, 8))))
            for one in endpoints
            if random.random() < 0.4
        }
        overlay = FamilyOverlay(hints, random.choice((None, "Hints/Balanced")), exceptions)
        slices.set({"cart.IPv4": "none", "cart.IPv6": "none"} | encode_entries("cart", {family: overlay}))
        for manager in (BUILT_IN, "somebody-else"):
            sent = a_built_in(endpoints, family=family, manager=manager)
            created = slices.create(sent)
            sent_slice = msgspec.convert(sent, EndpointSlice)
            model = with_overlay_hints(sent_slice, overlay, is_touch=False)
            stored = msgspec.convert(created, EndpointSlice)
            assert (stored.endpoints or ()) == (model.endpoints or ()), (overlay, manager)
            touched = msgspec.convert(slices.touch(created), EndpointSlice)
            model = with_overlay_hints(stored, overlay)
            assert (touched.endpoints or ()) == (model.endpoints or ()), (overlay, manager)


def test_touch_changes_only_hints_and_a_second_one_is_a_no_op(slices: Slices) -> None:
    slices.set({})
    created = slices.create(a_built_in([endpoint("10.0.0.1"), endpoint("10.0.0.2", "b")]))
    assert hints_of(created) == [None, None]
    assert slices.touch(created)["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]
    slices.set({"cart.IPv4": "zones"})
    touched = slices.touch(created)
    assert hints_of(touched) == [{"forZones": [{"name": "a"}]}, {"forZones": [{"name": "b"}]}]
    assert slices.touch(created)["metadata"] == touched["metadata"]
    # As the built-in controller does, which did not ask for these hints.
    undone = slices.api.replace(created | {"metadata": touched["metadata"]})
    assert undone["metadata"]["resourceVersion"] == touched["metadata"]["resourceVersion"]
    for one in touched["endpoints"]:
        del one["hints"]
    assert touched["endpoints"] == created["endpoints"]


@pytest.mark.parametrize(
    "value", ["-a", "a,", "a,b,c,d,e,f,g,h,i", "A" * 64, " ", "none", "ä", "a\nb", "", "x" * 100_000]
)
def test_malformed_zones_fall_back_to_the_own_zone(slices: Slices, value: str) -> None:
    entries = {"cart.IPv4": "zones", "cart.10.0.0.1": value}
    try:
        slices.set(entries)
    except ApiError:
        # The guard refuses what is no list of zones; nothing else may have let it in.
        return
    exceptions = read_entries(entries)["cart", "IPv4"].exceptions
    expected = [{"name": zone} for zone in exceptions.get("10.0.0.1", ("a",))]
    assert hints_of(slices.create(a_built_in([endpoint("10.0.0.1")]))) == [{"forZones": expected}]


@pytest.mark.parametrize(("count", "zones"), [(1_000, 1), (500, 8)])
def test_largest_slices_get_hints(slices: Slices, count: int, zones: int) -> None:
    addresses = [f"10.1.{index // 250}.{index % 250}" for index in range(count)]
    value = ",".join(f"{LONG_ZONE}{index}" for index in range(zones))
    entries = {"cart.IPv4": "zones"} | ({f"cart.{address}": value for address in addresses} if zones > 1 else {})
    slices.set(entries)
    created = slices.create(a_built_in([endpoint(address) for address in addresses]))
    assert [len(hints["forZones"]) for hints in hints_of(created) if hints] == [zones] * count


def filled(entries: dict[str, str], most: int, *, zones: str = "eu-central-1b") -> dict[str, str]:
    """The entries, and those of another Service until all have about ``most`` bytes."""
    filled = dict(entries)
    size = index = 0
    while size < most:
        key = f"other.10.{index // 62500}.{index // 250 % 250}.{index % 250}"
        filled[key] = zones
        size += len(key) + len(filled[key])
        index += 1
    return filled


def test_largest_parameter_object_is_accepted_and_used(slices: Slices) -> None:
    slices.set(filled({"cart.IPv4": "zones", "cart.10.0.0.1": "b"}, MAX_BYTES - 200))
    assert hints_of(slices.create(a_built_in([endpoint("10.0.0.1")]))) == [{"forZones": [{"name": "b"}]}]


def test_parameter_object_near_the_limit_of_the_api_fails_no_write(slices: Slices) -> None:
    """A cluster administrator writes it, twice as large as the controller would. The API takes 1 MiB.

    Few large entries, because the guard checks each: 35,000 small ones take the API server 4 s of CPU.
    """
    zones = ",".join(f"{LONG_ZONE}{index}" for index in range(8))
    slices.set(filled({"cart.IPv4": "zones", "cart.10.0.0.1": "c"}, _MOST_OF_A_CONFIG_MAP - 600, zones=zones))
    server = slices.cluster.plane.server
    before = cpu_seconds(server.pid)
    assert hints_of(slices.create(a_built_in([endpoint("10.0.0.1")]))) == [{"forZones": [{"name": "c"}]}]
    assert cpu_seconds(server.pid) - before < 5.0


def test_malformed_entry_of_a_service_changes_no_slice(slices: Slices) -> None:
    for head in ("zones ???", "zones-and", ""):
        try:
            slices.set({"cart.IPv4": head})
        except ApiError:
            # The guard refuses it.
            continue
        assert read_entries({"cart.IPv4": head}) == {}
        assert hints_of(slices.create(a_built_in([endpoint("10.0.0.1")]))) == [None]


def test_static_policy_only_completes_hints_of_kubernetes(slices: Slices) -> None:
    slices.set({})
    group = "/apis/admissionregistration.k8s.io/v1"
    policy, binding = own_zone_policy()
    slices.api.request("POST", f"{group}/mutatingadmissionpolicies", policy)
    slices.api.request("POST", f"{group}/mutatingadmissionpolicybindings", binding)
    zone_a, zone_b = ({"forZones": [{"name": zone}]} for zone in "ab")
    partly = a_built_in([endpoint("10.0.0.1", hints=zone_a), endpoint("10.0.0.2", "b", conditions={"ready": False})])

    def is_known() -> bool:
        stored = slices.api.request("POST", slices.path, partly, query={"dryRun": "All"})
        return hints_of(stored) == [zone_a, zone_b]

    slices.cluster.plane.wait_until(is_known, what="the static policy")
    assert hints_of(slices.create(a_built_in([endpoint("10.0.0.1"), endpoint("10.0.0.2", "b")]))) == [None, None]
    without_zone = a_built_in([endpoint("10.0.0.1", hints=zone_a), endpoint("10.0.0.2", None)])
    assert hints_of(slices.create(without_zone)) == [zone_a, None]
    with_nodes = [
        endpoint("10.0.0.1", nodeName="n1", hints=zone_a | {"forNodes": [{"name": "n1"}]}),
        endpoint("10.0.0.2", "b", nodeName="n2"),
    ]
    assert hints_of(slices.create(a_built_in(with_nodes)))[1] == zone_b | {"forNodes": [{"name": "n2"}]}
    slices.api.request("DELETE", f"{group}/mutatingadmissionpolicybindings/{binding['metadata']['name']}")
    slices.api.request("DELETE", f"{group}/mutatingadmissionpolicies/{policy['metadata']['name']}")


# --- who may write ----------------------------------------------------------------------------------------------------


def test_tenant_may_not_write_the_parameters(cluster: Cluster) -> None:
    plane = cluster.plane
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]
    plane.allow("reader", rules, until=f"/api/v1/namespaces/{NAMESPACE}/configmaps")
    tenant = plane.api("reader")
    refused = "only Zoneward's controller and cluster administrators"
    with pytest.raises(ApiError, match=refused):
        tenant.patch(CONFIG_MAP, {"data": {"cart.IPv4": "zones"}})
    with pytest.raises(ApiError, match=refused):
        tenant.delete(CONFIG_MAP)
    with pytest.raises(ApiError, match=refused):
        tenant.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/configmaps")
    tenant.create(CONFIG_MAP | {"metadata": {"name": "mine", "namespace": NAMESPACE}})


def test_kubernetes_may_store_the_parameters_again(cluster: Cluster, slices: Slices) -> None:
    """As its controller of StorageVersionMigrations does, which may list and patch everything."""
    name = "storage-version-migrator-controller"
    accounts = "/api/v1/namespaces/kube-system/serviceaccounts"
    cluster.api.request("POST", accounts, {"metadata": {"name": name}})
    account = cluster.plane.service_account(name, namespace="kube-system")
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["list", "patch"]}]
    cluster.plane.allow(account, rules, until="/api/v1/configmaps")
    slices.set({"cart.IPv4": "zones"})
    stored = cluster.api.read(CONFIG_MAP)
    same = {"metadata": {"uid": stored["metadata"]["uid"], "resourceVersion": stored["metadata"]["resourceVersion"]}}
    assert cluster.plane.api(account).patch(CONFIG_MAP, same, content_type=MERGE_PATCH)["data"] == stored["data"]


def test_controller_may_write_its_parameters_and_hints_of_slices(cluster: Cluster, slices: Slices) -> None:
    account = cluster.account()
    controller = cluster.plane.api(account)
    slices.set({"cart.IPv4": "zones"})
    slice_ = slices.create(a_built_in([endpoint("10.0.0.1"), endpoint("10.0.0.2", "b")]))
    assert hints_of(slices.touch(slice_, account)) == hints_of(slice_)
    changes: tuple[Object, ...] = (
        {"metadata": {"labels": {"more": "x"}}},
        {"metadata": {"annotations": {"more": "x"}}},
        {"endpoints": [endpoint("10.0.0.1")]},
        {"endpoints": [endpoint("10.0.0.1"), endpoint("10.6.6.6", "b")]},
        {"ports": []},
    )
    for change in changes:
        with pytest.raises(ApiError, match="the controller changes nothing in an EndpointSlice but hints"):
            controller.patch(slice_, change, content_type=MERGE_PATCH)
    with pytest.raises(ApiError, match="403"):
        controller.create(CONFIG_MAP | {"metadata": {"name": "other", "namespace": NAMESPACE}})
    assert controller.patch(CONFIG_MAP, {"data": {"cart.IPv4": "none"}})["data"]["cart.IPv4"] == "none"


@pytest.mark.parametrize("endpoints", [[], None])
def test_controller_may_touch_a_slice_without_endpoints(
    cluster: Cluster, slices: Slices, endpoints: list[Object] | None
) -> None:
    slices.set({"cart.IPv4": "remove"})
    slice_ = slices.create(a_built_in([]) | {"endpoints": endpoints})
    assert slices.touch(slice_, cluster.account()) == slice_
    slice_ = slices.create(a_built_in([endpoint("10.0.0.1")]))
    with pytest.raises(ApiError, match="the controller changes nothing in an EndpointSlice but hints"):
        cluster.plane.api(cluster.account()).patch(slice_, {"endpoints": None}, content_type=MERGE_PATCH)


def test_a_config_map_affects_only_slices_of_its_namespace(cluster: Cluster, slices: Slices) -> None:
    slices.set({"cart.IPv4": "zones"})
    cluster.api.create(a_namespace("elsewhere"))
    slice_ = a_built_in([endpoint("10.0.0.1")])
    created = cluster.api.create(slice_ | {"metadata": slice_["metadata"] | {"namespace": "elsewhere"}})
    assert hints_of(created) == [None]


# --- the controller ---------------------------------------------------------------------------------------------------


def test_lease_of_a_tenant_does_not_stop_the_release(cluster: Cluster, slices: Slices) -> None:
    """Anybody may create a Lease with the name of the controller's, and hold it."""
    slices.set({"other.IPv4": "zones"})
    for namespace, holder in ((NAMESPACE, "tenant"), (cluster.home, "")):
        path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        spec = {"holderIdentity": holder, "leaseDurationSeconds": 1_000_000}
        cluster.api.request("POST", path, {"metadata": {"name": "zoneward-controller"}, "spec": spec})
    release = ("release", "--overlay", "--timeout=100")
    refused = cluster.plane.zoneward(*release, check=False)
    assert refused.returncode == 2
    assert f"expected one, got one in each of {NAMESPACE}, {cluster.home}: use --scale-down" in refused.stderr
    done = cluster.plane.zoneward(*release, f"--scale-down={cluster.home}/zoneward-controller")
    assert "2 Services left the overlay" in done.stdout


def test_edited_config_map_is_repaired_and_a_missing_policy_is_reported(cluster: Cluster, tmp_path: Path) -> None:
    plane, api = cluster.plane, cluster.api
    plane.start_controllers("endpointslice-controller")
    policy = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies/zoneward-overlay"
    config_map = f"/api/v1/namespaces/shop/configmaps/{names.OVERLAY_CONFIG_MAP}"
    annotations = {names.TOPOLOGY_MODE_ANNOTATION: "zoneward.dev/Balanced"}
    api.create(a_service("cart", namespace="shop", selector={"app": "cart"}, annotations=annotations))
    # With other endpoints there were other entries.
    plane.wait_until(lambda: len(cluster.ready("cart")) == PODS, what="all endpoints")
    with cluster.controller(cluster.account(), tmp_path):

        def entries() -> Object:
            answer = api.send("GET", config_map)
            return (answer.object.get("data") or {}) if answer.code == 200 else {}

        def patches() -> int:
            asked = ((entry["verb"], entry["objectRef"].get("resource")) for entry in cluster.audit.entries())
            return sum(request == ("patch", "configmaps") for request in asked)

        def reason() -> str | None:
            return cluster.conditions("cart").get(names.PROGRAMMED_CONDITION)

        plane.wait_until(lambda: reason() == "Enabled", what="the overlay")
        expected = entries()
        edited = CONFIG_MAP | {"metadata": {"name": names.OVERLAY_CONFIG_MAP, "namespace": "shop"}}
        before = patches()
        unknown = {f"nobody-{index}.IPv4": "zones" for index in range(3_000)}
        api.patch(edited, {"data": {"cart.IPv4": "none", "nobody.10.0.0.1": "a"} | unknown})
        plane.wait_until(lambda: entries() == expected, what="its own entries")
        assert patches() - before <= 5, "as a rule the test's own, one for the Service, and one for all others"
        api.delete(edited)
        plane.wait_until(lambda: entries() == expected, what="the ConfigMap again")

        def is_applied() -> bool:
            probe = a_slice("probe", service="cart", manager=BUILT_IN, namespace="shop")
            probe |= {"endpoints": [endpoint("10.9.9.9")]}
            path = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices"
            return hints_of(api.request("POST", path, probe, query={"dryRun": "All"})) != [None]

        assert is_applied()
        stored = api.get(policy)
        api.request("DELETE", policy)
        # Until then, the hints of changed slices are right, and there is nothing to report.
        plane.wait_until(lambda: not is_applied(), what="an API server without the policy")
        cluster.make_ready("cart-0", False)
        cluster.make_ready("cart-3", False)
        plane.wait_until(lambda: reason() == "OverlayNotApplied", what="a report")
        for field in ("resourceVersion", "uid", "creationTimestamp", "managedFields", "generation"):
            stored["metadata"].pop(field, None)
        api.request("POST", policy.rpartition("/")[0], stored)
        plane.wait_until(is_applied, what="an API server with the policy")
        cluster.make_ready("cart-0", True)
        plane.wait_until(lambda: reason() == "Enabled", what="the overlay again")
    plane.stop_controllers()


def test_api_server_without_mutating_policies_is_refused() -> None:
    """As those before Kubernetes 1.36 are."""
    without = (
        "--runtime-config=admissionregistration.k8s.io/v1/mutatingadmissionpolicies=false",
        "--disable-admission-plugins=ServiceAccount,MutatingAdmissionPolicy",
    )
    with ControlPlane(server_flags=without) as plane:
        done = plane.zoneward("controller", "--overlay", "--no-leader-elect", "--listen=127.0.0.1:0", check=False)
    assert done.returncode == 2
    assert "expected Kubernetes 1.36 or newer for --overlay" in done.stderr
    assert "zoneward adopt" in done.stderr


def test_check_reads_the_policy_and_its_binding(cluster: Cluster, slices: Slices) -> None:
    """Last: it takes the binding away."""

    def messages() -> list[str]:
        printed = json.loads(cluster.plane.zoneward("check", "-A", "-o", "json").stdout)
        assert [skipped for skipped in printed["notChecked"] if "ZW609" in skipped["codes"]] == []
        return [finding["message"] for finding in printed["findings"] if finding["code"] == "ZW609"]

    with suppress(ApiError):
        # An earlier test deletes it.
        cluster.api.create(CONFIG_MAP)
    slices.set({"cart.IPv4": "zones"})
    assert messages() == []
    cluster.plane.kubectl("delete", "mutatingadmissionpolicybinding", names.OVERLAY_CONFIG_MAP)
    assert messages() == ["nothing binds the policy zoneward-overlay: it has no effect"]
