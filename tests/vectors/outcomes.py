"""What came out, in the words of the vectors, and the comparison of the two."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from tests.clusters import endpoints_in
from tests.vectors.cases import Case

from zoneward.controller.controller_metrics import sync_labels
from zoneward.kube.objects import Endpoint, EndpointSlice, ServiceEvent
from zoneward.slices.plan import ServicePlan


def check(got: Mapping[str, object], expected: Case, *, skipped: Collection[str] = (), where: str = "") -> None:
    """Names every expected field that came out otherwise; one that nobody looks at is a fault too."""
    faults = []
    for field, want in expected.items():
        if field in skipped:
            continue
        if field not in got:
            faults.append(f"{field}: expected, but this test does not look at it")
        elif got[field] != want:
            faults.append(f"{field}: expected {want!r}, got {got[field]!r}")
    if faults:
        raise AssertionError("\n".join([where, *faults] if where else faults))


def slices_after(plan: ServicePlan) -> list[EndpointSlice]:
    return [slice_ for family in plan.families for slice_ in family.changes.after]


def writes(plan: ServicePlan) -> dict[str, int]:
    changes = [family.changes for family in plan.families]
    return {
        "create": sum(len(change.create) for change in changes),
        "update": sum(len(change.update) for change in changes),
        "delete": sum(len(change.delete) for change in changes) + len(plan.surplus),
    }


def metric_label(plan: ServicePlan) -> dict[str, str]:
    labels = sync_labels(plan.service, plan.families[0].decision)
    return {"topology": labels.topology, "traffic_distribution": labels.traffic_distribution}


def endpoints_added(plan: ServicePlan) -> int:
    return sum(family.changes.added for family in plan.families)


def endpoints_removed(plan: ServicePlan) -> int:
    return sum(family.changes.removed for family in plan.families)


def pods_left_out(plan: ServicePlan) -> str:
    rules = [rule for family in plan.families for rule in family.decision.rules if rule.rule == "pod-nodes"]
    return "; ".join(rule.detail for rule in rules if not rule.passed)


def name_of(endpoint: Endpoint) -> str:
    assert endpoint.target_ref is not None
    return endpoint.target_ref.name


def zone_hints(endpoint: Endpoint) -> list[str]:
    return [zone.name for zone in (endpoint.hints.for_zones or ())] if endpoint.hints else []


def node_hints(endpoint: Endpoint) -> list[str]:
    return [node.name for node in (endpoint.hints.for_nodes or ())] if endpoint.hints else []


def hints_of(endpoint: Endpoint) -> dict[str, list[str]] | None:
    if endpoint.hints is None:
        return None
    return {"for_zones": zone_hints(endpoint), "for_nodes": node_hints(endpoint)}


def hints_per_zone(slices: Iterable[EndpointSlice]) -> dict[str, int]:
    return dict(Counter(zone for endpoint in endpoints_in(slices) for zone in zone_hints(endpoint)))


def hints_per_node(slices: Iterable[EndpointSlice]) -> dict[str, int]:
    return dict(Counter(node for endpoint in endpoints_in(slices) for node in node_hints(endpoint)))


def cross_zone_hints(slices: Iterable[EndpointSlice]) -> int:
    return sum(zone != endpoint.zone for endpoint in endpoints_in(slices) for zone in zone_hints(endpoint))


def events_meant(expected: Sequence[Case], *, address_type: str = "IPv4") -> tuple[ServiceEvent, ...]:
    return tuple(event_meant(event, address_type=address_type) for event in expected)


def event_meant(expected: Case, *, address_type: str = "IPv4") -> ServiceEvent:
    numbers = expected.get("message_counts")
    detail = f" ({numbers['endpoints']} endpoints, {numbers['zones']} zones)" if numbers else ""
    message = f"{expected['message_stem']}{detail}, addressType: {address_type}"
    return ServiceEvent(expected["type"], expected["reason"], message)
