"""The state of an idle cluster, compared with what a step expects and with what holds after every step."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, structs
from tests.contract.api import Object
from tests.scenarios.cluster import OTHER
from tests.scenarios.history import APP, addresses_of
from tests.scenarios.history import is_ready as is_pod_ready
from tests.scenarios.scenario import NONE, Expectation, Seen, Step

from zoneward.advice.deciders import ClusterStates
from zoneward.advice.node_proxies import PROXY_KINDS, same_proxy_everywhere
from zoneward.cli.options import Options
from zoneward.cli.planned_services import SelectedServices
from zoneward.cli.route import node_routes
from zoneward.controller.status.status_writer import CONTROLLER
from zoneward.kube import names
from zoneward.kube.adoption_marks import manager_of
from zoneward.kube.objects import Endpoint, EndpointSlice, Node, Pod, Service, is_ready, node_zone
from zoneward.report.route_report import PortRoute
from zoneward.routing.configuration import Configuration, FeatureGates
from zoneward.routing.demand import demand_of
from zoneward.routing.selection.endpoint_selection import CONSUMERS
from zoneward.routing.service_events import find_condition
from zoneward.routing.zone_groups import group_of_slice
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.plan import ServicePlan, plan_service
from zoneward.snapshots.cluster_snapshot import Snapshot

_GATES = {name.replace("_", ""): name for name in FeatureGates.__struct_fields__}


class Lists(NamedTuple):
    """As the server gave them, by plural."""

    nodes: list[Object]
    services: list[Object]
    pods: list[Object]
    endpointslices: list[Object]
    events: list[Object]


@dataclass(frozen=True)
class Observed:
    lists: Lists
    configuration: Configuration

    @cached_property
    def snapshot(self) -> Snapshot:
        return Snapshot(
            services=tuple(msgspec.convert(self.lists.services, list[Service])),
            nodes=tuple(msgspec.convert(self.lists.nodes, list[Node])),
            pods=tuple(msgspec.convert(self.lists.pods, list[Pod])),
            slices=tuple(msgspec.convert(self.lists.endpointslices, list[EndpointSlice])),
            lists_pods=True,
        )

    @cached_property
    def cluster_state(self) -> ClusterState:
        return ClusterState(
            demand=demand_of(self.snapshot.nodes, self.configuration),
            node_zones=self.snapshot.node_zones,
            configuration=self.configuration,
        )

    def reported(self) -> Counter[tuple[str, str]]:
        """How often the controller wrote each event, by Service and ``<type> <reason>: <note>``."""
        counts: Counter[tuple[str, str]] = Counter()
        for event in self.lists.events:
            if event.get("reportingController") == CONTROLLER:
                what = f"{event['type']} {event['reason']}: {event.get('note', '')}"
                counts[event["regarding"]["name"], what] += (event.get("series") or {}).get("count", 1)
        return counts


@dataclass(frozen=True)
class Found:
    """One Service after a step. What an expectation names is an attribute of the same name."""

    observed: Observed
    service: Service
    served: Mapping[str, tuple[str, ...]]
    """What ``serves`` was before the step."""
    events: list[str]
    writes: int
    """Where changes are batched, beyond one in each period."""

    @cached_property
    def plan(self) -> ServicePlan:
        """The plan that the server's present objects give."""
        return plan_service(
            self.service,
            pods=self.observed.snapshot.pods_of(self.service),
            slices=self.all_slices,
            cluster_state=self.observed.cluster_state,
        )

    @cached_property
    def all_slices(self) -> tuple[EndpointSlice, ...]:
        return self.observed.snapshot.slices_of(self.service)

    @cached_property
    def ready(self) -> list[tuple[EndpointSlice, Endpoint]]:
        return [(slice_, one) for slice_ in self.all_slices for one in slice_.endpoints or () if is_ready(one)]

    @cached_property
    def serves(self) -> dict[str, tuple[str, ...]]:
        """By address, the zones that use an endpoint; none where that is not said."""
        zones_by_address = {}
        for slice_, one in self.ready:
            group = group_of_slice(slice_)
            hinted = tuple(zone.name for zone in (one.hints.for_zones if one.hints is not None else None) or ())
            zones_by_address[(one.addresses or ("",))[0]] = hinted or (group.zones if group is not None else ())
        return zones_by_address

    def route(self, consumer: str, location: str, gates: FeatureGates) -> PortRoute:
        """What `zoneward route --as-is` says of the only port, on a node or the first node of a zone."""
        observed = self.observed
        configuration = structs.replace(observed.configuration, gates=gates)
        cluster_state = replace(observed.cluster_state, configuration=configuration, consumer=CONSUMERS[consumer])
        proxies = same_proxy_everywhere(observed.snapshot.nodes, PROXY_KINDS[consumer])
        selected = SelectedServices(
            Options(), observed.snapshot, ClusterStates(cluster_state), proxies, (self.service,)
        )
        # Of several families the first: IPv4.
        node = min(
            node.metadata.name for node in observed.snapshot.nodes if location in (node.metadata.name, node_zone(node))
        )
        return node_routes(selected, node=node, as_is=True).ports[0]

    @property
    def approach(self) -> object:
        written = {(slice_.metadata.annotations or {}).get(names.APPROACH_ANNOTATION) for slice_ in self.all_slices}
        return written.pop() if len(written) == 1 else sorted(map(str, written))

    @property
    def reason(self) -> str:
        return "+".join(sorted({family.decision.reason for family in self.plan.families}))

    @property
    def endpoints(self) -> int:
        return len(self.ready)

    @property
    def hints(self) -> object:
        return self._hinted("for_zones")

    @property
    def node_hints(self) -> object:
        return self._hinted("for_nodes")

    def _hinted(self, field: str) -> object:
        hints = (one.hints for _, one in self.ready if one.hints is not None)
        return _counted(target.name for hint in hints for target in getattr(hint, field) or ())

    @property
    def groups(self) -> object:
        """By the zones of a group, ``a+b`` for one of two."""
        groups = (group_of_slice(slice_) for slice_, _ in self.ready)
        return _counted("+".join(group.zones) for group in groups if group is not None)

    @property
    def own_zone(self) -> int:
        """Those that serve the zone in which they are, by hints or by groups."""
        return sum(one.zone in self.serves[(one.addresses or ("",))[0]] for _, one in self.ready)

    @property
    def moved(self) -> int:
        return sum(self.serves[address] != zones for address, zones in self.served.items() if address in self.serves)

    @property
    def slices(self) -> int:
        return len(self.all_slices)

    @property
    def managers(self) -> list[str]:
        return sorted({manager_of(slice_) or "" for slice_ in self.all_slices})

    @property
    def accepted(self) -> object:
        return self._condition(names.ACCEPTED_CONDITION, reasons=False)

    @property
    def programmed(self) -> object:
        return self._condition(names.PROGRAMMED_CONDITION, reasons=True)

    def _condition(self, type_: str, *, reasons: bool) -> bool | str:
        """True; or false, or the reason why."""
        status = self.service.status
        condition = find_condition((status.conditions or ()) if status is not None else (), type_)
        if condition is None:
            return "absent"
        return True if condition.status == "True" else reasons and (condition.reason or "")


def _counted(texts: Iterable[str]) -> object:
    return dict(Counter(texts)) or NONE


# --- checks -----------------------------------------------------------------------------------------------------------


def check(outcome: Found, step: Step, where: str, *, at_work: bool) -> None:
    where = f"{where}, {outcome.service.metadata.name}"
    expected = step.expect.get(outcome.service.metadata.name, Expectation())
    changed = {_GATES[name.lower()]: on for name, on in step.proxy_gates.items()}
    gates = structs.replace(outcome.observed.configuration.gates, **changed)
    if at_work:
        _check_rest(outcome, where)
    _check_proxies(outcome, gates, where)
    named = {name: getattr(expected, name) for name in expected.__struct_fields__ if name not in ("events", "route")}
    wrong = {
        name: f"{getattr(outcome, name)!r}, expected {wanted!r}"
        for name, wanted in named.items()
        if wanted is not UNSET and not _agree(name, getattr(outcome, name), wanted)
    }
    assert not wrong, f"{where}: {wrong}, events {outcome.events}"
    _check_events(outcome.events, expected, where)
    for consumer, places in expected.route.items():
        for location, seen in places.items():
            _check_route(outcome.route(consumer, location, gates), seen, f"{where}: {consumer} in {location}")


def _agree(name: str, got: Any, wanted: Any) -> bool:
    if name in ("writes", "moved"):
        return bool(got <= wanted)
    if not (isinstance(got, dict) and isinstance(wanted, dict)):
        return bool(got == wanted)
    return got.keys() == wanted.keys() and all(figure in _range(wanted[key]) for key, figure in got.items())


def _range(figure: int | str) -> range:
    least, _, most = str(figure).partition("-")
    return range(int(least), int(most or least) + 1)


def _check_events(got: list[str], expected: Expectation, where: str) -> None:
    """Each expected event is the beginning of one that was written, and no other was.

    With a star it may occur more than once, with a question mark any number of times.
    """
    rest = list(got)
    for wanted in expected.events:
        mark, what_is_told = (wanted[0], wanted[2:]) if wanted[:2] in ("* ", "? ") else ("", wanted)
        alike = [what for what in rest if what.startswith(what_is_told)]
        assert alike or mark == "?", f"{where}: events {got}, expected {expected.events}"
        for what in alike if mark else alike[:1]:
            rest.remove(what)
    assert not rest, f"{where}: events {got}, expected {expected.events}"


def _check_route(route: PortRoute, seen: int | Seen, where: str) -> None:
    wanted = Seen(cluster=seen) if isinstance(seen, int) else seen
    got = {"cluster": len(route.cluster or ()), "local": len(route.local or ()), "rule": str(route.rule)}
    for name, value in got.items():
        assert getattr(wanted, name) in (UNSET, value), f"{where}: {name} {value!r}, expected {wanted!r}"


def _check_rest(outcome: Found, where: str) -> None:
    """Every ready Pod is listed once, by slices that a new plan would not change."""
    observed, service = outcome.observed, outcome.service
    addresses = Counter((one.addresses or ("",))[0] for slice_, one in outcome.ready if manager_of(slice_) != OTHER)
    pods = {
        address
        for pod in observed.lists.pods
        for address in addresses_of(pod)
        if is_pod_ready(pod)
        and pod["metadata"]["labels"].get(APP) == service.metadata.name
        and pod["spec"]["nodeName"] in observed.snapshot.node_zones
        and ("IPv6" if ":" in address else "IPv4") in (service.spec.ip_families or ())
    }
    assert set(addresses.values()) <= {1}, f"{where}: listed twice {addresses.most_common(3)}"
    for family in outcome.plan.families:
        changes = family.changes
        left = len(changes.create), len(changes.update), len(changes.delete)
        assert left == (0, 0, 0), f"{where}: a new plan would create, update and delete {left}"
    assert addresses.keys() == pods, f"{where}: listed {sorted(addresses)}, ready {sorted(pods)}"


def _check_proxies(outcome: Found, gates: FeatureGates, where: str) -> None:
    """No proxy of any age is left with nothing while there is a ready endpoint."""
    nodes = outcome.observed.snapshot.nodes
    # One node represents all of its zone.
    places = {node_zone(node) or node.metadata.name: node.metadata.name for node in nodes}
    for consumer, node_name in product(CONSUMERS, places.values() if outcome.ready else ()):
        route = outcome.route(consumer, node_name, gates)
        assert route.cluster or route.cluster is None, f"{where}: {consumer} on {node_name} has no endpoint"
