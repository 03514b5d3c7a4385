"""What one Service adds to a table."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.proxy.services import services

from zoneward.proxy.base_rules import LayoutOptions
from zoneward.proxy.layout import portion, slots_of
from zoneward.proxy.ruleset import Portion
from zoneward.proxy.served import FAMILIES, Served, ServedPort, Target

HERE, THERE = Target("10.1.0.1", 8080, here=True), Target("10.2.0.1", 8080)


def a_portion(
    *, cluster: tuple[Target, ...] = (HERE, THERE), local: tuple[Target, ...] = (), own: str | None = None, **about: Any
) -> Portion:
    """Of a Service with one port, with an external address unless told otherwise."""
    port: dict[str, Any] = {"node_port": about.pop("node_port", None), "affinity": about.pop("affinity", None)}
    port |= {"has_any": about.pop("has_any", bool(cluster or local)), "weights": about.pop("weights", None)}
    served = Served(
        namespace="shop",
        name="cart",
        family="ip",
        cluster_ip="10.96.0.1",
        ports=(ServedPort(name="", protocol="tcp", port=80, cluster=cluster, local=local, **port),),
        **({"external": ("198.51.100.1",)} | about),
    )
    options = LayoutOptions(own_addresses=None if own is None else {"ip": own})
    return portion(served, slots_of(served, {}), options)


INNER, OUTER, NODE = "10.96.0.1 . tcp . 80", "198.51.100.1 . tcp . 80", "tcp . 30080"


def test_each_address_leads_to_its_slots() -> None:
    found = a_portion(node_port=30_080).elements
    assert found["services"] == {INNER: "goto c-2", OUTER: "goto x-2"}
    assert found["node-ports"] == {NODE: "goto nx-2"}
    for name, keys in (("endpoints", (INNER, OUTER)), ("node-endpoints", (NODE,))):
        assert found[name] == {
            f"{key} . {slot}": f"{each.address} . 8080" for key in keys for slot, each in enumerate((HERE, THERE))
        }
    assert found["cluster-ips"] == {"10.96.0.1": ""}
    assert found["hairpin"] == {"10.1.0.1 . 10.1.0.1 . tcp . 8080": ""}
    assert a_portion(node_port=30_080).shared == {"c-2", "x-2", "nc-2", "nx-2"}


def test_without_endpoints_all_addresses_reject() -> None:
    found = a_portion(cluster=(), node_port=30_080).elements
    assert found["refused"] == {INNER: "goto nobody", OUTER: "goto nobody"}
    assert found["node-refused"] == {NODE: "goto nobody"}
    assert not found.keys() & {"services", "node-ports", "endpoints"}


def test_the_external_policy_local_parts_inside_and_outside() -> None:
    found = a_portion(local=(HERE,), external_local=True, node_port=30_080).elements
    assert found["services"] == {INNER: "goto c-2", OUTER: "goto external"}
    assert (found["inside"], found["outside"]) == ({OUTER: "goto c-2"}, {OUTER: "goto l-1"})
    assert (found["node-inside"], found["node-outside"]) == ({NODE: "goto nc-2"}, {NODE: "goto nl-1"})
    assert "refused" not in found


def test_the_policies_local_drop_where_others_have_endpoints() -> None:
    found = a_portion(external_local=True, internal_local=True, node_port=30_080).elements
    assert found["refused"] == {INNER: "drop", OUTER: "drop"}
    assert found["node-refused"] == {NODE: "drop"}
    # What starts here is served all the same.
    assert (found["services"], found["inside"]) == ({OUTER: "goto external"}, {OUTER: "goto c-2"})
    assert "outside" not in found


def test_weights_become_slots() -> None:
    found = a_portion(weights=(1.0, 0.5), external=()).elements
    assert found["services"] == {INNER: "goto c-3"}
    assert sorted(found["endpoints"].values()) == ["10.1.0.1 . 8080", "10.1.0.1 . 8080", "10.2.0.1 . 8080"]


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        (None, "ip saddr != { 192.0.2.0/24 } drop"),
        ("198.51.100.9", "ip saddr != { 192.0.2.0/24 } drop"),
        ("192.0.2.9", "ip saddr != { 192.0.2.0/24, 203.0.113.1 } drop"),
    ],
)
def test_a_balancers_address_may_call_itself_where_the_node_may(own: str | None, expected: str) -> None:
    found = a_portion(balancers=("203.0.113.1",), sources=("192.0.2.0/24",), own=own)
    ((name, chain),) = found.chains.items()
    assert chain.rules == (expected,)
    assert found.elements["guarded"] == {"203.0.113.1 . tcp . 80": f"goto {name}"}


def test_a_client_keeps_its_endpoint_for_each_port_of_its_own() -> None:
    found = a_portion(affinity=60, node_port=30_080)
    assert not found.shared
    assert "endpoints" not in found.elements
    assert len(found.sets) == 2
    assert all(each.spec.endswith("flags dynamic,timeout; timeout 60s") for each in found.sets.values())
    keep = found.elements["services"][INNER].removeprefix("goto ")
    leads = [rule.split()[-1] for rule in found.chains[keep].rules]
    # Those who were here before, the draw, and whom the draw misses.
    assert len(leads) == 4
    assert leads[0] == leads[3]
    assert found.elements["services"][OUTER] == found.elements["node-ports"][NODE] != f"goto {keep}"


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_every_address_leads_somewhere_or_is_refused(family: Any, data: st.DataObject) -> None:
    """And where slots are drawn, each of them is there."""
    served = data.draw(services(family, name="1"))
    found = portion(served, slots_of(served, {}), LayoutOptions())
    addresses = (served.cluster_ip, *served.external, *served.balancers)
    for port in served.ports:
        for key in (f"{address} . {port.protocol} . {port.port}" for address in addresses):
            assert any(key in found.elements.get(name, {}) for name in ("services", "refused"))
        if port.node_port is not None:
            key = f"{port.protocol} . {port.node_port}"
            assert any(key in found.elements.get(name, {}) for name in ("node-ports", "node-refused"))
    for name, some in found.elements.items():
        for key, verdict in some.items():
            kind, _, number = verdict.removeprefix("goto ").partition("-")
            if kind.removeprefix("n") in ("c", "l", "x"):
                assert verdict.removeprefix("goto ") in found.shared
                slots = f"{'node-' if kind[0] == 'n' else ''}{'local-' if kind[-1] == 'l' else ''}endpoints"
                assert {f"{key} . {slot}" for slot in range(int(number))} <= found.elements[slots].keys(), name
