"""Many decisions about one Service, each with other numbers of Pods in its zones.

`decide` reads only how many alike endpoints there are. A trial adds and removes the few by which it differs from the
last one, and decides: less than a millisecond, where a whole plan of a thousand Pods takes thirty. What it finds is
verified by the plan of the changed input (`zoneward.advice.fixes`).
"""

from typing import Final

from zoneward.advice.changed_cluster import ImpossibleChange, ServicePods
from zoneward.advice.count_search import PodChanges
from zoneward.advice.service_input import Change, ServiceInput
from zoneward.kube.objects import Pod, Service
from zoneward.routing.decision import Decision
from zoneward.slices.decide import decide
from zoneward.slices.endpoints import PodEndpoint, collect_endpoints
from zoneward.slices.existing import ExistingSlices
from zoneward.slices.plan import existing_by_family


class Trials:
    """Decisions about one address family of a Service that is managed."""

    def __init__(self, given: ServiceInput, address_type: str) -> None:
        self._given = given
        self._address_type = address_type
        self.replicas: Final = given.replicas(address_type)
        state = given.cluster_state
        by_name = {slice_.metadata.name: slice_ for slice_ in given.slices}
        existing = existing_by_family(given.service, by_name.values(), state).get(address_type) or ExistingSlices(
            given.service, state.configuration
        )
        self._in_force = existing.in_force
        self._previous_groups = existing.previous_groups().get
        pods = {(pod.metadata.namespace, pod.metadata.name): pod for pod in given.pods}.values()
        self._endpoints = collect_endpoints(address_type, given.service, pods, existing, state)
        self._more: dict[str, list[Pod]] = {}
        self._fewer: dict[tuple[str, int], list[Pod]] = {}
        self._changes: dict[str, int] = {}
        """The changes that the endpoints have now."""
        self._added: dict[int, PodEndpoint | None] = {}

    def decide(self, pods: PodChanges, *, service: Service | None = None) -> Decision:
        """The decision after changing the number of Pods by zone. Raises ImpossibleChange.

        Its targets are of no use after the next trial.
        """
        state = self._given.cluster_state
        if not isinstance(self.replicas, ServicePods):
            changed = self._given.changed(Change(pods=pods), address_type=self._address_type)
            family = changed.family(self._address_type)
            assert family is not None
            return family.decision
        self._change_to(pods)
        return decide(
            service or self._given.service,
            self._endpoints.index,
            demand=state.decision_demand(),
            in_force=self._in_force,
            configuration=state.configuration,
            slice_groups_read=state.reads_slice_groups(service or self._given.service),
        )

    def _change_to(self, changes: PodChanges) -> None:
        most = max(changes.values(), default=0)
        if most > 0 and any(
            len(self._more.get(zone, ())) < change for zone, change in changes.items() if zone in self.replicas.zones
        ):
            for zone in self._changes:
                self._set(zone, min(0, self._changes[zone]))
            self._make_more(max(16, 2 * most))
        # Raises before anything changes.
        for zone, change in changes.items():
            if change > len(self._more.get(zone, ())):
                raise ImpossibleChange(f"expected a zone with a ready Node, got {zone!r}")
            self._gone(zone, change)
        for zone in {**self._changes, **changes}:
            self._set(zone, changes.get(zone, 0))

    def _set(self, zone: str, change: int) -> None:
        """Change the number of Pods of one zone."""
        now, endpoints = self._changes.get(zone, 0), self._endpoints
        if now == change:
            return
        more = self._more.get(zone, [])
        for pod in more[max(0, change) : max(0, now)]:
            endpoints.remove_pod(pod, self._added.pop(id(pod)))
        for pod in more[max(0, now) : max(0, change)]:
            self._added[id(pod)] = endpoints.add_pod(pod, self._previous_groups)
        was_gone, is_gone = self._gone(zone, now), self._gone(zone, change)
        if was_gone or is_gone:
            was, is_ = set(map(id, was_gone)), set(map(id, is_gone))
            for pod in was_gone:
                if id(pod) not in is_:
                    endpoints.add_pod(pod, self._previous_groups)
            for pod in is_gone:
                if id(pod) not in was:
                    endpoints.remove_pod(pod, endpoints.find(pod))
        self._changes[zone] = change

    def _gone(self, zone: str, change: int) -> list[Pod]:
        assert isinstance(self.replicas, ServicePods)
        if change >= 0:
            return []
        if (zone, change) not in self._fewer:
            left = {id(pod) for pod in self.replicas.changed({zone: change})}
            self._fewer[zone, change] = [pod for pod in self._given.pods if id(pod) not in left]
        return self._fewer[zone, change]

    def _make_more(self, count: int) -> None:
        """Pods for all trials, ``count`` for each zone, with unused names and addresses."""
        assert isinstance(self.replicas, ServicePods)
        zones = sorted(self.replicas.zones)
        new = self.replicas.changed(dict.fromkeys(zones, count))[len(self._given.pods) :]
        self._more = {zone: list(new[index * count :][:count]) for index, zone in enumerate(zones)}
