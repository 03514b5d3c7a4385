"""What happens to the traffic of a Service, why, and what to change: everything that ``zoneward explain`` shows."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from zoneward.advice.bypass import Bypass, bypasses
from zoneward.advice.dropped_traffic import DroppedTraffic, dropped_first, dropped_traffic
from zoneward.advice.fix_commands import FixSteps, steps_of
from zoneward.advice.fixes import Fix, aim_of, find_fixes
from zoneward.advice.honored_traffic import HonoredTraffic, node_traffic
from zoneward.advice.load_change import LoadChange, PlansBefore, load_change, plans_before
from zoneward.advice.measured_flows import MeasuredFlows
from zoneward.advice.node_proxies import NodeProxies
from zoneward.advice.now import CurrentTraffic, ignoring_proxies, traffic_now
from zoneward.advice.pod_limits import Unchecked, pod_limits
from zoneward.advice.proxy_kinds import ProxyKind
from zoneward.advice.service_input import ServiceInput
from zoneward.kube.adoption_marks import runs_zoneward
from zoneward.kube.objects import Service
from zoneward.routing.selection.expected_traffic import ExpectedTraffic
from zoneward.slices.plan import FamilyPlan

_STALE: Final = "With slices as planned nothing is dropped: zoneward check shows how those in the cluster differ."


@dataclass(frozen=True, slots=True)
class VerifiedFix:
    """A fix and how to apply it."""

    fix: Fix
    steps: FixSteps


@dataclass(frozen=True, slots=True)
class FamilyExplanation:
    """One address family of a Service.

    ``now`` is None where no slices are known. ``built_in`` says why
    the built-in controller, which is the one at work, gives no hints where Zoneward would; ``built_in_traffic`` is what
    comes of the hints that it gives by CPU, where Zoneward decides by another demand. ``aim`` is what the ``fixes``
    reach, None where nothing is to be fixed. ``limits`` say which changes of Pods are not possible, and ``unchecked``
    what such changes depend on and the input does not have; both empty where no fix is looked for, and ``unchecked``
    where no fix changes Pods. ``load_change`` is None where the cluster was not changed, or no endpoint has traffic
    before or after. ``measured`` is None where nothing was. ``ignored_by``: the kinds of proxies that ignore what is
    planned, with the numbers of their nodes. ``drops_now`` and ``would_drop``: what proxies drop with the slices in
    force, and with those that are planned.
    """

    now: CurrentTraffic | None
    planned: FamilyPlan
    built_in: str | None
    aim: str | None
    fixes: tuple[VerifiedFix, ...]
    limits: tuple[str, ...] = ()
    unchecked: tuple[Unchecked, ...] = ()
    load_change: LoadChange | None = None
    measured: HonoredTraffic | None = None
    built_in_traffic: ExpectedTraffic | None = None
    ignored_by: tuple[tuple[ProxyKind, int], ...] = ()
    drops_now: DroppedTraffic | None = None
    would_drop: DroppedTraffic | None = None

    @property
    def dropped(self) -> DroppedTraffic | None:
        """What comes before everything else about the Service."""
        return dropped_first(self.drops_now, self.would_drop)

    @property
    def changes_nothing(self) -> bool:
        """Whether traffic goes the same way now and as planned, in a cluster that no option changes."""
        now, planned = self.now.traffic if self.now is not None else None, self.planned.traffic
        if now is None or planned is None or self.load_change is not None:
            return False
        return now.zones == planned.zones and now.max_overload == planned.max_overload


@dataclass(frozen=True, slots=True)
class Explanation:
    """A Service with all its address families, none for an ExternalName. ``is_changed``: options change the cluster;
    ``is_measured``: there are measurements."""

    service: Service
    families: tuple[FamilyExplanation, ...]
    bypassed_by: tuple[Bypass, ...]
    is_changed: bool = False
    is_measured: bool = False


def explain_service(
    given: ServiceInput,
    *,
    node_proxies: NodeProxies,
    actual: Service | None = None,
    unchanged: ServiceInput | None = None,
    measured: MeasuredFlows | None = None,
) -> Explanation:
    """Explain one Service. ``actual`` is the Service as it is in the cluster where ``given`` has another setting,
    ``unchanged`` the same in the cluster as it was read where ``given`` is in a changed one. ``node_proxies`` are those
    of the cluster as it was read. ``measured``: what nodes counted, to stand beside what is in force.
    """
    read = unchanged or given
    state = read.cluster_state
    now = traffic_now(
        actual or given.service,
        slices=read.slices,
        demand=state.demand,
        node_proxies=node_proxies,
        gates=state.configuration.gates,
    )
    before = plans_before([unchanged.plan]) if unchanged is not None else {}
    honored = _honored(read, actual or given.service, measured) if measured is not None else {}
    families = tuple(
        _family(
            given,
            family,
            now.get(family.address_type),
            before,
            honored.get(family.address_type),
            drops_now=_dropped_now(actual or given.service, family.address_type, read, now),
            node_proxies=node_proxies,
        )
        for family in given.plan.families
    )
    return Explanation(
        given.service,
        families,
        bypasses(given),
        is_changed=unchanged is not None,
        is_measured=measured is not None,
    )


def _honored(read: ServiceInput, service: Service, measured: MeasuredFlows) -> dict[str, HonoredTraffic]:
    """By address type."""
    name = service.metadata.namespace, service.metadata.name
    return {
        family: HonoredTraffic(
            node_traffic(
                service,
                family,
                flows.connections,
                zone_of=measured.zone_of,
                slices=read.slices,
                cluster_state=read.cluster_state,
            )
        )
        for (*key, family), flows in measured.services.items()
        if tuple(key) == name
    }


def _family(
    given: ServiceInput,
    family: FamilyPlan,
    now: CurrentTraffic | None,
    before: PlansBefore,
    measured: HonoredTraffic | None,
    *,
    drops_now: DroppedTraffic | None,
    node_proxies: NodeProxies,
) -> FamilyExplanation:
    aim = aim_of(family)
    would_drop = dropped_traffic(family.service, family.slices, family.traffic, family.cluster_state.demand)
    if drops_now is not None and would_drop is None:
        drops_now = replace(drops_now, fix=_STALE)
    fixes = find_fixes(given, family.address_type)
    limits = pod_limits(given, family.address_type)
    built_in = _as_built_in(given, family)
    state = family.cluster_state
    return FamilyExplanation(
        now=now,
        planned=family,
        built_in=built_in.decision.message if built_in is not None and not built_in.decision.active else None,
        aim=aim.about if aim is not None else None,
        fixes=tuple(VerifiedFix(fix, steps_of(fix, given, family.address_type)) for fix in fixes),
        limits=limits.reasons if aim is not None and not aim.only_served else (),
        unchecked=limits.unchecked if any(fix.change.pods for fix in fixes) else (),
        load_change=load_change(family, before),
        measured=measured if measured is not None and measured.nodes else None,
        drops_now=drops_now,
        ignored_by=ignoring_proxies(family, node_proxies),
        would_drop=would_drop,
        built_in_traffic=built_in.traffic
        if built_in is not None and built_in.decision.active and state.decision_demand() is not state.by_cpu
        else None,
    )


def _dropped_now(
    service: Service, address_type: str, read: ServiceInput, now: Mapping[str, CurrentTraffic]
) -> DroppedTraffic | None:
    """What proxies drop with the slices as they were read; None where there are none."""
    if address_type not in now:
        return None
    slices = [each for each in read.slices if each.address_type == address_type]
    return dropped_traffic(service, slices, now[address_type].traffic, read.cluster_state.demand)


def _as_built_in(given: ServiceInput, family: FamilyPlan) -> FamilyPlan | None:
    """What the built-in controller does, where it is at work and Zoneward's approach would be active."""
    if (
        not family.decision.active
        or given.cluster_state.configuration.upstream
        or runs_zoneward(given.service, given.slices)
    ):
        return None
    return given.as_upstream().family(family.address_type)
