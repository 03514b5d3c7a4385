"""Small clusters for tests: builders with a default for all that a test does not care about, and what a plan makes of
them. Random ones are in `tests.properties.random_clusters`."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import msgspec
from hypothesis.vendor.pretty import RepresentationPrinter
from msgspec.structs import replace

from zoneward.kube import names
from zoneward.kube.objects import (
    Allocatable,
    Container,
    ContainerPort,
    Endpoint,
    EndpointConditions,
    EndpointIdentity,
    EndpointPort,
    EndpointSlice,
    ForNode,
    ForZone,
    Hints,
    Node,
    NodeCondition,
    NodeMeta,
    NodeStatus,
    Number,
    ObjectMeta,
    ObjectReference,
    OwnerReference,
    Pod,
    PodIP,
    PodMeta,
    PodSpec,
    PodStatus,
    Service,
    ServicePort,
    ServiceSpec,
    ServiceStatus,
    node_zone,
)
from zoneward.routing.configuration import Configuration
from zoneward.routing.decision import Decision
from zoneward.routing.demand import Demand, compute_demand
from zoneward.routing.placement.groups import ZoneGroup
from zoneward.routing.selection.endpoint_selection import HonoredHints, Policies
from zoneward.routing.selection.expected_traffic import ExpectedTraffic, ExpectedZoneTraffic
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.encode import HintEncoder
from zoneward.slices.plan import FamilyPlan, ServicePlan, plan_service

NAMESPACE: Final = "shop"
SERVICE: Final = "cart"
UID: Final = "uid-of-cart"
PORT: Final = 8080
IPV4: Final = ("IPv4",)
IPV6: Final = ("IPv6",)
DUAL_STACK: Final = ("IPv4", "IPv6")

CLUSTER: Final = Policies(uses_cluster=True, uses_local=False)
"""Both traffic policies at their default."""
ALL_HINTS: Final = HonoredHints(zones=True, nodes=True)


# --- builders ---------------------------------------------------------------------------------------------------------


def a_node(
    name: str,
    zone: str | None = "a",
    *,
    cpu: Number | None = 4,
    ready: bool = True,
    labels: Mapping[str, str] | None = None,
) -> Node:
    zones = {names.ZONE_LABEL: zone} if zone is not None else {}
    return Node(
        metadata=NodeMeta(name=name, labels={**zones, **(labels or {})}),
        status=NodeStatus(
            allocatable=Allocatable(cpu=cpu) if cpu is not None else None,
            conditions=(
                NodeCondition(type="MemoryPressure", status="False"),
                NodeCondition(type="Ready", status="True" if ready else "False"),
            ),
        ),
    )


def nodes_in(cpu: Mapping[str, Number]) -> tuple[Node, ...]:
    """A ready Node for each zone, ``node-<zone>``, of so much CPU."""
    return tuple(a_node(f"node-{zone}", zone, cpu=amount) for zone, amount in cpu.items())


def a_pod(
    name: str,
    node: str = "node-a",
    *,
    ips: Sequence[str] = ("10.0.0.1",),
    ready: bool = True,
    terminating: bool = False,
    phase: str = "Running",
    hostname: str = "",
    subdomain: str = "",
    ports: Sequence[ContainerPort] = (),
) -> Pod:
    return Pod(
        metadata=PodMeta(
            name=name,
            namespace=NAMESPACE,
            uid=f"uid-of-{name}",
            labels={"app": SERVICE},
            deletion_timestamp="2026-11-21T08:00:00Z" if terminating else None,
        ),
        spec=PodSpec(
            node_name=node, hostname=hostname, subdomain=subdomain, containers=(Container(ports=tuple(ports)),)
        ),
        status=PodStatus(
            phase=phase,
            conditions=(NodeCondition(type="Ready", status="True" if ready else "False"),),
            pod_ip=ips[0] if ips else "",
            pod_ips=tuple(PodIP(ip=ip) for ip in ips),
        ),
    )


def pods_in(numbers: Mapping[str, int], *, dual_stack: bool = False) -> tuple[Pod, ...]:
    """So many ready Pods on ``node-<zone>`` of each zone, named ``<zone>-0000`` and so on, each with its own address.

    A Pod's name and address depend on nothing but its zone and number, so that a larger cluster holds the same Pods.
    """
    return tuple(
        a_pod(f"{zone}-{number:04}", f"node-{zone}", ips=_ips(ord(zone[-1]), number, dual_stack=dual_stack))
        for zone, count in numbers.items()
        for number in range(count)
    )


def _ips(block: int, number: int, *, dual_stack: bool) -> tuple[str, ...]:
    high, low = divmod(number, 250)
    ips = (f"10.{block}.{high}.{low + 1}", f"fd00::{block:x}:{high:x}:{low + 1:x}")
    return ips if dual_stack else ips[:1]


def a_service(
    mode: str | None = None,
    *,
    old: str | None = None,
    distribution: str | None = None,
    keys: Sequence[str] | None = None,
    families: Sequence[str] | None = IPV4,
    internal: str | None = None,
    external: str | None = None,
    node_port: int | None = None,
    type_: str | None = "ClusterIP",
    cluster_ip: str | None = "10.96.0.1",
    selector: Mapping[str, str] | None = None,
    selects: bool = True,
    ports: Sequence[ServicePort] | None = None,
    labels: Mapping[str, str] | None = None,
    subsetting: str | None = None,
    algorithm: str | None = None,
    starting: str | None = None,
    threshold: str | None = None,
    publish_not_ready: bool | None = None,
    uid: str = UID,
    deleting: bool = False,
) -> Service:
    """A Service. ``mode`` is the new topology annotation's value, ``old`` the old one's; ``selects`` off takes the
    selector. ``subsetting``, ``algorithm`` and ``starting`` are the annotations of KEP-2004, ``threshold`` is that for
    hints.
    """
    given = {
        names.TOPOLOGY_MODE_ANNOTATION: mode,
        names.TOPOLOGY_AWARE_HINTS_ANNOTATION: old,
        names.SUBSETTING_ANNOTATION: subsetting,
        names.SUBSETTING_ALGORITHM_ANNOTATION: algorithm,
        names.STARTING_THRESHOLD_ANNOTATION: starting,
        names.HINTS_THRESHOLD_ANNOTATION: threshold,
    }
    annotations = {name: value for name, value in given.items() if value is not None}
    if ports is None:
        ports = (ServicePort(name="http", port=80, target_port=PORT, node_port=node_port),)
    return Service(
        metadata=ObjectMeta(
            name=SERVICE,
            namespace=NAMESPACE,
            uid=uid,
            labels=dict(labels) if labels is not None else None,
            annotations=annotations or None,
            deletion_timestamp="2026-11-21T08:00:00Z" if deleting else None,
        ),
        spec=ServiceSpec(
            type=type_,
            selector=(dict(selector) if selector else {"app": SERVICE}) if selects else None,
            cluster_ip=cluster_ip,
            ip_families=tuple(families) if families is not None else None,
            ports=tuple(ports),
            publish_not_ready_addresses=publish_not_ready,
            internal_traffic_policy=internal,
            external_traffic_policy=external,
            traffic_distribution=distribution,
            topology_keys=tuple(keys) if keys is not None else None,
        ),
    )


def hints(*zones: str, nodes: Sequence[str] = ()) -> Hints:
    return Hints(
        for_zones=tuple(ForZone(name=zone) for zone in zones) or None,
        for_nodes=tuple(ForNode(name=node) for node in nodes) or None,
    )


def an_endpoint(
    address: str = "10.0.0.1",
    zone: str | None = "a",
    *,
    node: str | None = None,
    ready: bool | None = True,
    serving: bool | None = None,
    terminating: bool | None = None,
    hinted: Hints | None = None,
    pod: str | None = None,
) -> Endpoint:
    return Endpoint(
        addresses=(address,),
        conditions=EndpointConditions(ready=ready, serving=serving, terminating=terminating),
        target_ref=ObjectReference(kind="Pod", namespace=NAMESPACE, name=pod, uid=f"uid-of-{pod}") if pod else None,
        node_name=node,
        zone=zone,
        hints=hinted,
    )


def a_slice(
    name: str,
    *endpoints: Endpoint,
    manager: str | None = names.MANAGER,
    in_force: str | None = None,
    family: str = "IPv4",
    owner: str | None = UID,
    ports: Sequence[EndpointPort] = (EndpointPort(name="http", protocol="TCP", port=PORT),),
    labels: Mapping[str, str] | None = None,
) -> EndpointSlice:
    """A slice of the Service. ``in_force`` is what it says it was written for, ``owner`` the UID of its Service."""
    managed = {names.MANAGED_BY_LABEL: manager} if manager is not None else {}
    owners = (
        OwnerReference(kind="Service", name=SERVICE, uid=owner or "", controller=True, block_owner_deletion=True),
    )
    return EndpointSlice(
        metadata=ObjectMeta(
            name=name,
            namespace=NAMESPACE,
            labels={names.SERVICE_NAME_LABEL: SERVICE, **managed, **(labels or {})},
            annotations={names.APPROACH_ANNOTATION: in_force} if in_force is not None else None,
            owner_references=owners if owner is not None else None,
        ),
        address_type=family,
        endpoints=endpoints,
        ports=tuple(ports),
    )


def demand_in(**weights: int) -> Demand:
    """Demand of so many nodes in each zone, without the Nodes behind it."""
    zones = tuple(sorted(weights))
    return Demand(zones=zones, weights=tuple(weights[zone] for zone in zones), unit="nodes")


def cluster_state(
    nodes: Iterable[Node], configuration: Configuration | None = None, *, pods_known: bool = True
) -> ClusterState:
    configuration = configuration if configuration is not None else Configuration()
    nodes = tuple(nodes)
    return ClusterState(
        demand=compute_demand(nodes, missing_cpu=configuration.hints.missing_cpu),
        node_zones={node.metadata.name: node_zone(node) for node in nodes},
        configuration=configuration,
        pods_known=pods_known,
    )


# --- clusters and what becomes of them --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Cluster:
    """One Service and everything that its plan depends on."""

    service: Service
    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    slices: tuple[EndpointSlice, ...] = ()
    configuration: Configuration = Configuration()  # noqa: RUF009 -- frozen all the way down
    pods_known: bool = True

    def __repr__(self) -> str:
        """As short as a cluster can be told: fields at their default left out."""
        objects = (self.service, *self.nodes, *self.pods, *self.slices)
        lines = (f"{type(each).__name__} {msgspec.json.encode(each).decode()}" for each in objects)
        return "\n".join(("Cluster:", *lines, repr(self.configuration), f"pods_known={self.pods_known}"))

    def _repr_pretty_(self, printer: RepresentationPrinter, cycle: bool) -> None:  # noqa: ARG002
        """Hypothesis prints it as `repr` does."""
        printer.text(repr(self))

    @property
    def cluster_state(self) -> ClusterState:
        return cluster_state(self.nodes, self.configuration, pods_known=self.pods_known)

    def plan(self, *, trigger_time: str | None = None) -> ServicePlan:
        return plan_service(
            self.service,
            pods=self.pods,
            slices=self.slices,
            cluster_state=self.cluster_state,
            trigger_time=trigger_time,
        )

    def with_(self, **changes: object) -> "Cluster":
        """The same cluster with other fields."""
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]

    def after(self, plan: ServicePlan) -> "Cluster":
        """The cluster in which a plan was carried out to the letter: what it does not speak of stays as it is."""
        changes = [family.changes for family in plan.families]
        replaced = [each for family in plan.families for each in family.replaced]
        gone = [*plan.surplus, *replaced, *(each for change in changes for each in change.delete)]
        new = [each for change in changes for each in (*change.create, *change.update)]
        spoken_of = {each.metadata.name for each in (*gone, *new)}
        left = [each for each in self.slices if each.metadata.name not in spoken_of]
        return self.with_(service=told(self.service, plan), slices=(*left, *new))

    def settled(self) -> "Cluster":
        """The cluster after its own plan."""
        return self.after(self.plan())


def slices_after(plan: ServicePlan) -> tuple[EndpointSlice, ...]:
    """The slices that proxies see when a plan is carried out: those of the built-in controller are gone by then."""
    return tuple(each for family in plan.families for each in family.slices)


def told(service: Service, plan: ServicePlan) -> Service:
    """The Service with a plan's conditions in its status, in place of those that an earlier plan left there."""
    ours = (names.ACCEPTED_CONDITION, names.PROGRAMMED_CONDITION)
    status = service.status if service.status is not None else ServiceStatus()
    others = tuple(each for each in status.conditions or () if each.type not in ours)
    return replace(service, status=replace(status, conditions=(*others, *plan.conditions)))


def endpoint_answers(decision: Decision) -> dict[EndpointIdentity, tuple[Hints | None, ZoneGroup | None]]:
    """What a decision says about each endpoint: its hints and its slice group."""
    assignment = decision.assignment
    if assignment is None:
        return {}
    index, encoder = assignment.endpoint_index, HintEncoder(assignment)
    buckets = (*index.ready_buckets(), *index.unready_buckets())
    members = [*(member for bucket in buckets for member in bucket.members), *index.shared_address]
    return {
        each.identity: (
            encoder.hints_of(each) if assignment.kind == "hints" else None,
            assignment.group_of(each) if assignment.kind == "groups" else None,
        )
        for each in members
    }


def decided_hints(decision: Decision) -> list[Hints | None]:
    """The hints of each endpoint, in any order."""
    return [hints for hints, _ in endpoint_answers(decision).values()]


def only_family(plan: ServicePlan) -> FamilyPlan:
    """The plan of the one address family of a Service that has one."""
    (family,) = plan.families
    return family


def written(plan: ServicePlan) -> tuple[EndpointSlice, ...]:
    """Every slice that a plan creates, updates or deletes."""
    return (
        *(
            each
            for family in plan.families
            for each in (*family.changes.create, *family.changes.update, *family.changes.delete)
        ),
        *plan.surplus,
    )


def rounded(traffic: ExpectedTraffic) -> ExpectedTraffic:
    """Without what depends on the order of endpoints: sums of doubles differ by it in the last digits."""

    def nearly(each: ExpectedTraffic | ExpectedZoneTraffic) -> dict[str, Any]:
        values = {field.name: getattr(each, field.name) for field in dataclasses.fields(each)}
        return {name: round(value, 9) for name, value in values.items() if isinstance(value, float)}

    zones = {name: dataclasses.replace(zone, **nearly(zone)) for name, zone in traffic.zones.items()}
    load = tuple(sorted(round(share, 9) for share in traffic.load))
    return dataclasses.replace(traffic, zones=zones, load=load, **nearly(traffic))


def endpoints_in(slices: Iterable[EndpointSlice]) -> list[Endpoint]:
    """Every endpoint of some slices, as often as it is there."""
    return [endpoint for each in slices for endpoint in each.endpoints or ()]


def hinted_zones(slices: Iterable[EndpointSlice]) -> dict[str, str]:
    """Pod (or address) to the one zone that its endpoint is hinted to; endpoints without such a hint are left out."""
    found = {}
    for endpoint in endpoints_in(slices):
        if endpoint.hints is not None and endpoint.hints.for_zones:
            (zone,) = endpoint.hints.for_zones
            found[endpoint.target_ref.name if endpoint.target_ref else (endpoint.addresses or ("",))[0]] = zone.name
    return found


def overload_threshold(cluster: Cluster, family: FamilyPlan) -> Fraction:
    """KEP-2433 § Overload: the higher threshold where every slice says that the same is in force already."""
    said = {
        (each.metadata.annotations or {}).get(names.APPROACH_ANNOTATION)
        for each in cluster.slices
        if each.address_type == family.address_type
        and (each.metadata.labels or {}).get(names.MANAGED_BY_LABEL) == names.MANAGER
        and each.endpoints
    }
    kept = said == {f"{family.decision.approach}/{family.decision.heuristic}"}
    return cluster.configuration.hints.keep_threshold if kept else cluster.configuration.hints.start_threshold
