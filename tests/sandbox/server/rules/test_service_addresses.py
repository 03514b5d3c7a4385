"""What Services take, and what another one can have then; two families, for which there was no server to ask."""

# ruff: noqa: E501 -- words of upstream stand whole, to be found

from copy import deepcopy

import pytest
from tests.sandbox.server.rules.service_desk import (
    CLUSTER_IP,
    EXTERNAL_NAME,
    LOCAL,
    NODE_PORT,
    NODE_PORTS,
    Desk,
    InvalidError,
    Spec,
    ports,
    refused,
    single,
)

from zoneward.sandbox.server.allocation import AddressRange, PortRange
from zoneward.sandbox.server.kinds import Object
from zoneward.sandbox.server.refusals import Refusal
from zoneward.sandbox.server.rules.service import ServiceRules


def internal(problem: str) -> tuple[int, str, str, Object]:
    return 500, "InternalError", f"Internal error occurred: {problem}", {"causes": [{"message": problem}]}


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (
            LOCAL | {"healthCheckNodePort": 30000},
            "failed to allocate requested HealthCheck NodePort 30000: provided port is already allocated",
        ),
        (
            LOCAL | {"healthCheckNodePort": 29000},
            "failed to allocate requested HealthCheck NodePort 29000: provided port is not in the valid range. The range of valid ports is 30000-30003",
        ),
        (
            LOCAL | {"healthCheckNodePort": 30003} | ports({"port": 80, "nodePort": 30003}),
            "failed to allocate requested HealthCheck NodePort 30003: provided port is already allocated",
        ),
        (
            NODE_PORTS | ports(*({"port": port, "name": f"p{port}"} for port in range(1, 9))),
            "failed to allocate a nodePort: range is full",
        ),
        (
            LOCAL | ports(*({"port": port, "name": f"p{port}"} for port in range(1, 4))),
            "failed to allocate a HealthCheck NodePort 0: range is full",
        ),
    ],
)
def test_what_upstream_has_no_field_for_is_its_internal_error(spec: Spec, problem: str) -> None:
    desk = single(ports=PortRange(range(30000, 30004)))
    desk.create(NODE_PORTS | ports({"port": 80, "nodePort": 30000}))
    with pytest.raises(Refusal) as found:
        desk.create(spec, name="other")
    refusal = found.value
    assert (refusal.code, refusal.reason, refusal.message, refusal.details) == internal(problem)
    three = NODE_PORTS | ports(*({"port": port, "name": f"p{port}"} for port in range(1, 4)))
    assert desk.create(three, name="third")["spec"]["clusterIP"]


def test_addresses_come_to_an_end() -> None:
    desk = Desk(addresses=[AddressRange("10.0.0.0/29")])
    for number in range(5):
        desk.create(CLUSTER_IP, name=f"web-{number}")
    with pytest.raises(Refusal, match=r"^Internal error occurred: failed to allocate a serviceIP: range is full$"):
        desk.create(CLUSTER_IP, name="last")


@pytest.mark.parametrize("base", [NODE_PORTS, NODE_PORTS | ports({"port": 80, "nodePort": 31000})])
def test_one_node_port_for_two_ports_is_an_error_of_upstreams_without_reason(base: Spec) -> None:
    desk = single()
    old = desk.create(base)
    with pytest.raises(Refusal) as found:
        desk.update(
            old, ports({"port": 80, "name": "a", "nodePort": 31000}, {"port": 81, "name": "b", "nodePort": 31000})
        )
    assert (found.value.code, found.value.reason, found.value.message) == (500, "", "duplicate nodePort: {TCP 31000}")


def test_what_another_service_has_cannot_be_had_until_it_goes() -> None:
    desk = single()
    spec = LOCAL | {"clusterIP": "10.96.0.9", "healthCheckNodePort": 31001} | ports({"port": 80, "nodePort": 31000})
    first = desk.create(spec)
    said = "spec.ports[0].nodePort: Invalid value: 31000: provided port is already allocated"
    assert refused(desk, NODE_PORTS | ports({"port": 80, "nodePort": 31000}), name="other") == [said]
    assert refused(desk, NODE_PORTS | ports({"port": 80, "nodePort": 31000, "protocol": "UDP"}), name="other") == [said]
    desk.rules.release(None, first)
    assert desk.create(spec, name="other")["spec"] == first["spec"]


def test_one_that_is_refused_for_its_name_gives_back_only_what_is_its_own() -> None:
    desk = single()
    stored = desk.create(CLUSTER_IP, uid="first")
    second = desk.create(CLUSTER_IP, uid="second")
    second["spec"] |= {name: stored["spec"][name] for name in ("clusterIP", "clusterIPs")}
    desk.rules.release(None, second)
    told = refused(desk, CLUSTER_IP | {"clusterIP": stored["spec"]["clusterIP"]}, name="other")
    assert told[0].endswith("provided IP is already allocated")


def test_what_an_update_drops_can_be_had_again() -> None:
    desk = single()
    spec = LOCAL | {"clusterIP": "10.96.0.9", "healthCheckNodePort": 31001} | ports({"port": 80, "nodePort": 31000})
    first = desk.create(spec)
    desk.update(first, EXTERNAL_NAME)
    assert desk.create(spec, name="other")["spec"] == first["spec"]


def test_a_dry_run_leaves_nothing_behind() -> None:
    desk = single()
    old = desk.create(NODE_PORTS)
    new = deepcopy(old)
    new["spec"]["ports"] = [{"port": 80, "nodePort": 31000}]
    desk.rules.default(new)
    assert not desk.rules.allocate(new, old)
    desk.rules.release(old, new)
    desk.create(NODE_PORTS | ports({"port": 80, "nodePort": 31000}), name="other")
    told = refused(desk, NODE_PORTS | ports({"port": 80, "nodePort": NODE_PORT}), name="third")
    assert told == [f"spec.ports[0].nodePort: Invalid value: {NODE_PORT}: provided port is already allocated"]


# --- from files -------------------------------------------------------------------------------------------------------


def restored(desk: Desk, name: str, spec: Spec) -> list[str]:
    thing: Object = {"metadata": {"name": name, "namespace": "shop"}, "spec": deepcopy(spec)}
    desk.rules.default(thing)
    return [str(error) for error in desk.rules.restore(thing)]


def test_objects_from_files_take_what_they_have() -> None:
    desk = single()
    spec = (
        NODE_PORTS
        | {"clusterIP": "10.96.0.9"}
        | ports({"port": 80, "nodePort": 31000}, {"port": 80, "protocol": "UDP", "nodePort": 31000})
    )
    assert restored(desk, "web", spec) == []
    assert refused(desk, CLUSTER_IP | {"clusterIP": "10.96.0.9"}, name="other")
    assert restored(desk, "other", spec) == [
        'spec.clusterIPs: Invalid value: ["10.96.0.9"]: failed to allocate IP 10.96.0.9: provided IP is already allocated',
        "spec.ports[0].nodePort: Invalid value: 31000: provided port is already allocated",
        "spec.ports[1].nodePort: Invalid value: 31000: provided port is already allocated",
    ]
    assert restored(desk, "third", LOCAL | {"healthCheckNodePort": 31000}) == [
        "spec.healthCheckNodePort: Invalid value: 31000: provided port is already allocated"
    ]


def test_what_a_file_has_from_ranges_of_other_clusters_is_let_be() -> None:
    desk = single()
    spec = NODE_PORTS | {"clusterIP": "172.20.0.1"} | ports({"port": 80, "nodePort": 20000})
    assert restored(desk, "web", spec) == restored(desk, "other", spec) == []


def test_an_object_of_a_file_without_addresses_can_be_changed() -> None:
    desk = single()
    thing: Object = {
        "metadata": {"name": "web", "namespace": "shop", "resourceVersion": "1"},
        "spec": deepcopy(NODE_PORTS),
    }
    desk.rules.default(thing)
    assert not desk.rules.restore(thing)
    assert desk.update(thing, {"selector": {"a": "b"}})["spec"] == thing["spec"] | {"selector": {"a": "b"}}


# --- two families -----------------------------------------------------------------------------------------------------


def test_two_families_give_two_addresses_to_who_prefers_or_requires_them() -> None:
    desk = Desk()
    for index, policy in enumerate(("PreferDualStack", "RequireDualStack"), start=1):
        spec = desk.create(CLUSTER_IP | {"ipFamilyPolicy": policy}, name=policy.lower())["spec"]
        assert spec["clusterIPs"] == [f"10.96.1.{index}", f"fd00:10:96::10{index}"]
        assert (spec["clusterIP"], spec["ipFamilies"]) == (f"10.96.1.{index}", ["IPv4", "IPv6"])
    assert desk.create(CLUSTER_IP)["spec"]["clusterIPs"] == ["10.96.1.3"]


def test_the_families_are_in_the_order_that_was_asked_for() -> None:
    desk = Desk()
    single_stack = desk.create(CLUSTER_IP | {"ipFamilies": ["IPv6"]}, name="one")["spec"]
    assert (single_stack["clusterIPs"], single_stack["ipFamilyPolicy"]) == (["fd00:10:96::101"], "SingleStack")
    both = desk.create(CLUSTER_IP | {"ipFamilies": ["IPv6"], "ipFamilyPolicy": "PreferDualStack"}, name="two")["spec"]
    assert (both["ipFamilies"], both["clusterIPs"]) == (["IPv6", "IPv4"], ["fd00:10:96::102", "10.96.1.1"])
    given = CLUSTER_IP | {"ipFamilyPolicy": "RequireDualStack", "clusterIP": "fd00:10:96::9"}
    assert desk.create(given, name="three")["spec"]["clusterIPs"] == ["fd00:10:96::9", "10.96.1.2"]


def test_a_service_gains_and_loses_its_second_family() -> None:
    desk = Desk()
    old = desk.create(CLUSTER_IP)
    both = desk.update(old, {"ipFamilyPolicy": "RequireDualStack"})
    assert both["spec"]["clusterIPs"] == ["10.96.1.1", "fd00:10:96::101"]
    with pytest.raises(InvalidError) as found:
        desk.update(both, {"clusterIPs": ["10.96.1.1"]})
    assert found.value.told == [
        "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": must be 'SingleStack' to release the secondary cluster IP"
    ]
    one = desk.update(both, {"ipFamilyPolicy": "SingleStack"})
    assert one["spec"] == old["spec"]
    taken = CLUSTER_IP | {"clusterIP": "fd00:10:96::101"}
    assert desk.create(taken, name="other")["spec"]["clusterIPs"] == ["fd00:10:96::101"]


def test_the_second_address_may_be_named_and_then_stays() -> None:
    desk = Desk()
    old = desk.create(CLUSTER_IP)
    both = desk.update(old, {"ipFamilyPolicy": "PreferDualStack", "clusterIPs": ["10.96.1.1", "fd00:10:96::9"]})
    assert both["spec"]["clusterIPs"] == ["10.96.1.1", "fd00:10:96::9"]
    with pytest.raises(InvalidError) as found:
        desk.update(both, {"clusterIPs": ["10.96.1.1", "fd00:10:96::8"]})
    assert found.value.told == [
        'spec.clusterIPs[1]: Invalid value: ["10.96.1.1","fd00:10:96::8"]: may not change once set'
    ]
    with pytest.raises(InvalidError) as found:
        desk.update(both, {"ipFamilies": ["IPv6", "IPv4"]})
    assert found.value.told == [
        'spec.clusterIPs[0]: Invalid value: "10.96.1.1": expected an IPv6 value as indicated by `ipFamilies[0]`',
        'spec.clusterIPs[1]: Invalid value: "fd00:10:96::9": expected an IPv4 value as indicated by `ipFamilies[1]`',
    ]


@pytest.mark.parametrize("networks", [[], ["10.0.0.0/24", "10.0.1.0/24"]])
def test_a_cluster_has_a_range_of_each_family_at_most(networks: list[str]) -> None:
    with pytest.raises(ValueError, match="one of each family"):
        ServiceRules(addresses=[AddressRange(network) for network in networks])
