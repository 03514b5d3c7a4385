"""What decides about each Service of a cluster: Zoneward's controller, an overlay of Zoneward, or Kubernetes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType
from typing import Final

from zoneward.kube.adoption_marks import runs_zoneward
from zoneward.kube.objects import EndpointSlice, Node, ObjectKey, Service
from zoneward.routing.configuration import Configuration
from zoneward.routing.demand import demands_of
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.overlay import FamilyOverlay, OverlayHints, overlay_configuration, with_approach

Overlays = Mapping[tuple[str, str, str], FamilyOverlay]
"""What ConfigMaps of an overlay say, by namespace, Service and address type."""
NO_OVERLAYS: Final[Overlays] = MappingProxyType({})
_Parts = Mapping[ObjectKey, Mapping[str, Fraction]]


@dataclass(frozen=True)
class ClusterStates:
    """What the plans of Services depend on, by what decides about a Service.

    ``kubernetes`` is None where Zoneward's controller decides about all of them, or is asked about. ``asks_zoneward``:
    what Kubernetes decides about is shown as Zoneward would decide, with the overlay where one is in use.
    """

    zoneward: ClusterState
    kubernetes: ClusterState | None = None
    overlays: Overlays = field(default_factory=lambda: NO_OVERLAYS)
    """Those in use."""
    asks_zoneward: bool = False

    @classmethod
    def of(
        cls,
        zoneward: ClusterState,
        nodes: Iterable[Node],
        of_kubernetes: Configuration | None,
        overlays: Overlays = NO_OVERLAYS,
    ) -> "ClusterStates":
        """``of_kubernetes`` decides as Kubernetes does, where that decides about some Services."""
        if of_kubernetes is None:
            return cls(zoneward, None, overlays)
        demand, cpu_demand = demands_of(nodes, of_kubernetes)
        kubernetes = replace(
            zoneward, demand=demand, cpu_demand=cpu_demand, configuration=of_kubernetes, is_of_kubernetes=True
        )
        return cls(zoneward, kubernetes, overlays)

    @property
    def of_most(self) -> ClusterState:
        """That of the cluster as a whole."""
        return self.zoneward if self.kubernetes is None or self.asks_zoneward else self.kubernetes

    def decided(
        self, service: Service, slices: tuple[EndpointSlice, ...]
    ) -> tuple[ClusterState, tuple[EndpointSlice, ...]]:
        """What the plan of a Service depends on, and its slices as that plan reads them."""
        if runs_zoneward(service, slices):
            return self.zoneward, slices
        key = service.metadata.namespace, service.metadata.name
        if not self._is_for_overlay(key):
            return self.of_most, slices

        def with_own_approach(slice_: EndpointSlice) -> EndpointSlice:
            overlay = self.overlays.get((*key, slice_.address_type))
            return with_approach(slice_, None if overlay is None else overlay.approach)

        return self._overlay, tuple(map(with_own_approach, slices))

    def with_parts(self, *, measured: _Parts, known: _Parts) -> "ClusterStates":
        """The same with other ``measured_parts`` and ``service_parts``."""
        zoneward = replace(self.zoneward, measured_parts=measured, service_parts=known)
        kubernetes = self.kubernetes and replace(self.kubernetes, measured_parts=measured, service_parts=known)
        return replace(self, zoneward=zoneward, kubernetes=kubernetes)

    def affect_all_services(self, new: "ClusterStates") -> bool:
        """As `ClusterState.affects_all_services`."""
        if (self.kubernetes is None) != (new.kubernetes is None) or self.overlays != new.overlays:
            return True
        return self.zoneward.affects_all_services(new.zoneward) or (
            self.kubernetes is not None
            and new.kubernetes is not None
            and self.kubernetes.affects_all_services(new.kubernetes)
        )

    def _is_for_overlay(self, key: ObjectKey) -> bool:
        if self.kubernetes is None:
            return self.zoneward.configuration.is_overlay
        return key in self._overlaid or (self.asks_zoneward and bool(self.overlays))

    @cached_property
    def _overlaid(self) -> frozenset[ObjectKey]:
        """The Services whose hints an overlay sets, without those that leave it."""
        entries = self.overlays.items()
        return frozenset(key[:2] for key, overlay in entries if overlay.hints is not OverlayHints.REMOVE)

    @cached_property
    def _overlay(self) -> ClusterState:
        configuration = overlay_configuration(self.zoneward.configuration)
        return replace(self.zoneward, configuration=configuration, overlay_in_use=bool(self.overlays))
