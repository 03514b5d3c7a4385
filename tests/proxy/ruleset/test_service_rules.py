"""What one Service adds to a table."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.proxy.drawn_services import node_service, one_port, services

from zoneward.netlink.messages import FAMILIES
from zoneward.proxy.model.node_service import Backend
from zoneward.proxy.ruleset.base_rules import RulesetOptions
from zoneward.proxy.ruleset.ruleset import ServiceRuleset
from zoneward.proxy.ruleset.service_rules import assign_slots, service_rules

HERE, THERE = Backend("10.1.0.1", 8080, is_local=True), Backend("10.2.0.1", 8080)


def a_portion(
    *,
    cluster: tuple[Backend, ...] = (HERE, THERE),
    local: tuple[Backend, ...] = (),
    own: str | None = None,
    **about: Any,
) -> ServiceRuleset:
    """The rules of a Service with one port, and with an external address by default."""
    names = ("node_port", "affinity_seconds", "has_any_endpoints", "weights")
    given = {"has_any_endpoints": bool(cluster or local)} | {name: about.pop(name) for name in names if name in about}
    port = one_port(*cluster, local_endpoints=local, **given)
    served = node_service(port, name="cart", **{"external_ips": ("198.51.100.1",)} | about)
    options = RulesetOptions(node_ips=None if own is None else {"ip": own})
    return service_rules((served,), assign_slots((served,), {}), options)


INNER, OUTER, NODE = "10.96.0.1 . tcp . 80", "198.51.100.1 . tcp . 80", "tcp . 30080"


def test_a_further_address_takes_as_much_with_a_hundred_endpoints_as_with_one() -> None:
    def size(addresses: int, endpoints: int) -> int:
        external = tuple(f"198.51.100.{host}" for host in range(1, addresses + 1))
        cluster = tuple(Backend(f"10.1.0.{host}", 8080) for host in range(1, endpoints + 1))
        return sum(map(len, a_portion(external_ips=external, cluster=cluster).elements.values()))

    assert size(200, 100) - size(100, 100) == size(200, 1) - size(100, 1) == 200
    assert size(200, 100) - size(200, 1) == 99


def test_nobody_is_served_without_endpoints_or_from_outside_of_the_source_ranges() -> None:
    assert a_portion(cluster=()).elements["refused"] == {INNER: "goto nobody", OUTER: "goto nobody"}
    (guard,) = a_portion(load_balancer_ips=("203.0.113.1",), source_ranges=("192.0.2.0/24",)).chains.values()
    assert guard.rules == ("ip saddr != { 192.0.2.0/24 } drop",)


def test_the_external_policy_local_parts_inside_and_outside() -> None:
    elements = a_portion(local=(HERE,), external_policy_local=True, node_port=30_080).elements
    assert elements["services"] == {INNER: "goto c-2", OUTER: "goto external-local"}
    assert (elements["inside"], elements["outside"]) == ({OUTER: "goto to-cluster"}, {OUTER: "goto to-local"})
    assert elements["node-ports"] == {NODE: "goto node-external-local"}
    assert (elements["node-inside"], elements["node-outside"]) == (
        {NODE: "goto node-to-cluster"},
        {NODE: "goto node-to-local"},
    )
    assert (elements["policy-cluster"], elements["policy-local"]) == ({INNER: "goto c-2"}, {INNER: "goto l-1"})
    assert elements["local-endpoints"] == {f"{INNER} . 0": "10.1.0.1 . 8080"}
    assert "refused" not in elements


def test_the_policies_local_drop_where_others_have_endpoints() -> None:
    elements = a_portion(external_policy_local=True, internal_policy_local=True, node_port=30_080).elements
    assert elements["refused"] == {INNER: "drop", OUTER: "drop"}
    assert elements["node-refused"] == {NODE: "drop"}
    # Traffic from this node is still served.
    assert (elements["services"], elements["inside"]) == ({OUTER: "goto external-local"}, {OUTER: "goto to-cluster"})
    assert "outside" not in elements


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_every_address_leads_somewhere_or_is_refused(family: Any, data: st.DataObject) -> None:
    """Every slot that a rule can choose has an endpoint."""
    served = data.draw(services(family, name="1"))
    ruleset = service_rules((served,), assign_slots((served,), {}), RulesetOptions())
    addresses = (served.cluster_ip, *served.external_ips, *served.load_balancer_ips)
    elements = ruleset.elements
    for port in served.ports:
        inner = f"{served.cluster_ip} . {port.protocol} . {port.port}"
        keys = [("services", "refused", f"{address} . {port.protocol} . {port.port}") for address in addresses]
        # An API server gives no node port to two ports.
        if port.node_port is not None and port.node_port not in {
            other.node_port for other in served.ports if other is not port
        }:
            keys.append(("node-ports", "node-refused", f"{port.protocol} . {port.node_port}"))
        for leading, refused, key in keys:
            prefix = "node-" if leading == "node-ports" else ""
            verdict = elements.get(leading, {}).get(key)
            assert verdict is not None or key in elements[refused]
            if verdict is None or key == inner:
                continue
            led = [verdict]
            if verdict.endswith("external-local"):
                led = [
                    verdict for name in ("inside", "outside") if (verdict := elements.get(prefix + name, {}).get(key))
                ]
            for target in led:
                assert elements[f"{prefix}to-cluster-ip"][key] == served.cluster_ip
                assert not prefix or elements["node-to-port"][key] == str(port.port)
                assert elements[f"policy-{target.rpartition('-')[2]}"][inner]
    for name in ("services", "policy-cluster", "policy-local"):
        for key, verdict in elements.get(name, {}).items():
            kind, _, count = verdict.removeprefix("goto ").partition("-")
            if kind in ("c", "l"):
                assert verdict.removeprefix("goto ") in ruleset.shared_chains
                slots = "local-endpoints" if kind == "l" else "endpoints"
                assert {f"{key} . {slot}" for slot in range(int(count))} <= elements[slots].keys()
