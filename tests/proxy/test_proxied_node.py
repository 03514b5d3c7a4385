"""After any changes in any order, a node's kernel has what a freshly started node would program."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import objects
from tests.properties.random_clusters import examples
from tests.proxy.kernel.fake_kernel import FakeKernel
from tests.proxy.table_harness import unslotted

from zoneward.client.backoff import Backoff
from zoneward.client.resources import LiveNode, RawEndpointSlice
from zoneward.kube.names import ZONE_LABEL, ZONE_WEIGHTS_ANNOTATION, ZONES_ANNOTATION
from zoneward.kube.objects import EndpointSlice, Service
from zoneward.netlink.messages import ADDRESS_TYPES, FAMILIES, Family
from zoneward.proxy.kernel import table_syncer as programming
from zoneward.proxy.kernel.table_syncer import TableSyncer
from zoneward.proxy.model.node_cache import NodeCache
from zoneward.proxy.model.node_service import NodeService, ProxyNode, node_services, resolve_ownership
from zoneward.proxy.proxier import Proxier
from zoneward.proxy.ruleset.base_rules import TABLE, RulesetOptions, base_chains
from zoneward.proxy.ruleset.ruleset_state import full_ruleset
from zoneward.routing.configuration import FeatureGates
from zoneward.routing.selection.endpoint_selection import ZONEWARD

OPTIONS: Final = RulesetOptions(pod_cidrs={"ip": "10.244.0.0/16", "ip6": "fd00:244::/64"})
NAMES: Final = ("cart", "mail")
PREFIX: Final[dict[Family, str]] = {"ip": "10.244.0.", "ip6": "fd00:244::"}
WEIGHTS: Final = '{"counts":{"a":2,"b":2},"shares":{"a":{"a":0.75,"b":0.25}}}'
some_services = st.fixed_dictionaries(
    {
        "number": st.integers(1, 2),
        "families": st.sampled_from([("ip", "ip6"), ("ip",), ("ip6",)]),
        "type": st.sampled_from(["ClusterIP", "NodePort"]),
        "policy": st.sampled_from(["Cluster", "Cluster", "Local"]),
        "protocol": st.sampled_from(["TCP", "UDP"]),
        "affinity": st.sampled_from(["None", "ClientIP"]),
    }
)
some_slices = st.fixed_dictionaries(
    {
        "family": st.sampled_from(FAMILIES),
        "zones": st.sampled_from(["a", "b", "a,b", "a=0.75,b=0.25", None, None, None]),
        "weights": st.sampled_from([WEIGHTS, WEIGHTS, "nonsense", None]),
        # Ready more often than not.
        "endpoints": st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3).map(bool)), min_size=1, max_size=4),
    }
)
beginnings = st.tuples(
    *(st.tuples(st.just("service"), st.just(name), some_services) for name in NAMES),
    *(st.tuples(st.just("slice"), st.just((name, suffix)), some_slices) for name in NAMES for suffix in "xy"),
).map(list)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("service"), st.sampled_from(NAMES), some_services | st.none()),
        st.tuples(st.just("slice"), st.tuples(st.sampled_from(NAMES), st.sampled_from("xyz")), some_slices | st.none()),
        st.tuples(st.just("zone"), st.sampled_from("bba"), st.none()),
        st.tuples(
            st.sampled_from(["wait", "wait", "death", "lost", "refuse", "table", "chain"]), st.just(""), st.none()
        ),
    ),
    max_size=6,
)


def service(name: str, version: int, drawn: Mapping[str, Any]) -> Service:
    index = drawn["number"]
    addresses = [f"10.96.0.{index}" if family == "ip" else f"fd00:96::{index}" for family in drawn["families"]]
    node_port = {"nodePort": 30_000 + index} if drawn["type"] == "NodePort" else {}
    document = objects.a_service(
        name,
        namespace="shop",
        version=version,
        type=drawn["type"],
        clusterIP=addresses[0],
        clusterIPs=addresses,
        internalTrafficPolicy=drawn["policy"],
        sessionAffinity=drawn["affinity"],
        ports=[{"name": "web", "protocol": drawn["protocol"], "port": 80} | node_port],
    )
    return msgspec.convert(document, Service)


def slice_(of: str, name: str, version: int, drawn: Mapping[str, Any]) -> RawEndpointSlice:
    family: Family = drawn["family"]
    document = objects.a_slice(f"{of}-{name}", service=of, namespace="shop", version=version)
    if drawn["zones"]:
        document["metadata"]["labels"][ZONE_LABEL] = drawn["zones"][0]
        document["metadata"]["annotations"] = {ZONES_ANNOTATION: drawn["zones"]}
    if drawn["weights"]:
        document["metadata"].setdefault("annotations", {})[ZONE_WEIGHTS_ANNOTATION] = drawn["weights"]
    document["addressType"] = ADDRESS_TYPES[family]
    document["ports"] = [{"name": "web", "protocol": protocol, "port": 8080} for protocol in ("TCP", "UDP")]
    document["endpoints"] = [
        {
            # An address is in one slice only: with two, the result depends on which one the node has unpacked.
            "addresses": [f"{PREFIX[family]}{host}{'xyz'.index(name)}"],
            "nodeName": "n1" if host == 1 else "n2",
            "zone": "ab"[host % 2],
            "conditions": {"ready": ready, "serving": True, "terminating": not ready},
        }
        for host, ready in drawn["endpoints"]
    ]
    return msgspec.json.decode(msgspec.json.encode(document), type=RawEndpointSlice)


def node(zone: str, version: int) -> LiveNode:
    return msgspec.convert(objects.a_node("n1", zone, version=version), LiveNode)


@pytest.fixture(autouse=True, scope="module")
def _no_pauses() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(programming, "BACKOFF", Backoff(initial=0.001, cap=5.0))
        yield


def fresh(
    family: Family, services: Mapping[str, Service], slices: Mapping[str, RawEndpointSlice], zone: str
) -> dict[tuple[str, str], NodeService]:
    """What a node serves that starts with all these slices."""
    candidates = []
    for name, one in services.items():
        own_slices = [opened(raw) for key, raw in slices.items() if key.partition("-")[0] == name]
        served = node_services(
            one, own_slices, node=ProxyNode(name="n1", zone=zone), consumer=ZONEWARD, gates=FeatureGates()
        )
        candidates += [node_service for node_service in served if node_service.family == family]
    return resolve_ownership(candidates, on_conflict=lambda _what: None)


def opened(raw: RawEndpointSlice) -> EndpointSlice:
    return msgspec.json.decode(msgspec.json.encode(raw), type=EndpointSlice)


@examples(40)
@given(beginning=beginnings, rest=steps)
def test_any_changes_end_as_a_fresh_start_would(
    beginning: list[tuple[str, Any, Any]], rest: list[tuple[str, Any, Any]]
) -> None:
    async def run() -> None:
        kernel = FakeKernel()
        known = NodeCache(
            "n1",
            zone="a",
            gates=FeatureGates(),
            on_service=lambda key, trigger: loop.service_changed(key, trigger),
        )
        loop: Proxier = Proxier(known)
        tables = {family: TableSyncer(kernel, family, options=OPTIONS) for family in FAMILIES}
        loop.tables.update(tables)
        known.nodes.put(node("a", 1))
        for store in (known.services, known.slices):
            store.retain_only(set())
        known.nodes.retain_only({("", "n1")})
        running = [asyncio.create_task(work) for work in (loop.run(), *(table.run() for table in tables.values()))]
        services: dict[str, Service] = {}
        slices: dict[str, RawEndpointSlice] = {}
        zone = "a"
        try:
            await loop.all_selected.wait()
            for version, (what, which, value) in enumerate([*beginning, ("wait", "", None), *rest], start=2):
                match what:
                    case "service" if value is not None:
                        services[which] = service(which, version, value)
                        known.services.put(services[which])
                    case "service":
                        services.pop(which, None)
                        known.services.retain_only({("shop", name) for name in services})
                    case "slice" if value is not None:
                        slices["-".join(which)] = slice_(which[0], which[1], version, value)
                        known.slices.put(slice_(which[0], which[1], version, value))
                    case "slice":
                        slices.pop("-".join(which), None)
                        known.slices.retain_only({("shop", name) for name in slices})
                    case "zone":
                        zone = which
                        known.nodes.put(node(zone, version))
                    case "death":
                        kernel.faults.deaths = 1
                    case "lost":
                        kernel.faults.deaths = kernel.faults.done_deaths = 1
                    case "refuse":
                        kernel.faults.refused_words = {"10.96.0.1 ", "fd00:96::2 "}
                    case "table" if ("ip", TABLE) in kernel.tables:
                        kernel.load(f"delete table ip {TABLE}\n")
                    case "chain" if ("ip", TABLE) in kernel.tables:
                        kernel.load(f"flush chain ip {TABLE} output\n")
                    case _:
                        # Long enough for the kernel to get most changes.
                        for _ in range(50):
                            await asyncio.sleep(0)
            kernel.faults.refused_words = set()
            await asyncio.sleep(0)
            for table in tables.values():
                table.request_audit()
                await table.wait_until_synced()
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        for family in FAMILIES:
            wanted = full_ruleset(family, fresh(family, services, slices, zone), options=OPTIONS)
            assert unslotted(kernel.elements(family, TABLE)) == unslotted(wanted.elements)
            chains = kernel.chains(family, TABLE)
            assert all(chains[name] == chain.rules for name, chain in base_chains(family, OPTIONS).items())

    asyncio.run(run())
