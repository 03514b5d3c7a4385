"""What all Services of a cluster share."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType

from zoneward.kube import names
from zoneward.kube.objects import ObjectKey, Service
from zoneward.routing.configuration import Configuration, compatibility_of
from zoneward.routing.demand import Demand, in_parts
from zoneward.routing.request import RequestedApproach, demand_parts, requested_approach
from zoneward.routing.rules import RuleLog
from zoneward.routing.selection.endpoint_selection import ZONEWARD, Consumer, proxy_name_of, reads_slice_groups
from zoneward.routing.selection.traffic import ConsumerDemand, split_demand


@dataclass(frozen=True)
class ClusterState:
    """Nodes, demand and settings, for the plans of all Services.

    ``demand`` is where traffic starts: predictions are weighed by it, and Zoneward decides by it unless ``decided_by``
    is set. The built-in controller knows nothing but CPU.

    ``node_zones`` has every Node that exists, with its zone or None; the mapping never changes, a new one replaces it.
    ``pods_known`` is off where a snapshot holds no Pods: endpoints then come from its slices. ``consumer`` is the kind
    of proxy that traffic is predicted for; nodes with a proxy of another kind are in ``consumer_by_node``.
    """

    demand: Demand
    node_zones: Mapping[str, str | None]
    configuration: Configuration
    pods_known: bool = True
    consumer: Consumer = ZONEWARD
    consumer_by_node: Mapping[str, Consumer] = field(default_factory=lambda: MappingProxyType({}))

    labelled_consumer: Consumer = ZONEWARD
    """That of Services with the label ``service-proxy-name``."""
    slice_groups_seen: bool | None = True
    """Whether a proxy that reads slice groups may run, as far as the ``consumer``s do not say it; None while that is
    not known."""
    service_parts: Mapping[ObjectKey, Mapping[str, Fraction]] = field(default_factory=lambda: MappingProxyType({}))
    """Parts of zones in the traffic of Services for which it is known, as in their annotation, which wins."""
    measured_parts: Mapping[ObjectKey, Mapping[str, Fraction]] = field(default_factory=lambda: MappingProxyType({}))
    """The same where only predictions are to be weighed by them, and no controller decides by them."""
    cpu_demand: Demand | None = None
    """The demand of CPU, where ``demand`` is another one."""
    decided_by: Demand | None = None
    """The demand by which Zoneward decides about the one Service that this state is for."""
    is_of_kubernetes: bool = False
    """Whether plans show what Kubernetes does: nobody has to write their slices."""
    overlay_in_use: bool = False
    """Whether plans are for an overlay that is in use already."""

    def for_service(self, service: Service) -> "ClusterState":
        """The same with the demand of a Service that says where its traffic starts, or of which it is known."""
        if self.decided_by is not None:
            return self
        key = service.metadata.namespace, service.metadata.name
        own, known, measured = demand_parts(service), self.service_parts.get(key), self.measured_parts.get(key)
        decided_by = self.demand
        if own is not None:
            decided_by = in_parts(self.demand, own)
        elif known is not None:
            decided_by = in_parts(self.demand, known, unit="figures")
        elif measured is None:
            return self
        demand = decided_by if measured is None else in_parts(self.by_cpu, measured, unit="figures")
        return replace(self, demand=demand, decided_by=decided_by, cpu_demand=self.by_cpu)

    @property
    def by_cpu(self) -> Demand:
        """The demand of CPU."""
        return self.cpu_demand or self.demand

    def decision_demand(self, *, built_in: bool = False) -> Demand:
        """The demand by which a controller decides: Zoneward's, or with ``built_in`` that of Kubernetes."""
        if built_in or not compatibility_of(self.configuration).reads_own_settings:
            return self.by_cpu
        return self.decided_by or self.demand

    def consumers_of(self, service: Service) -> tuple[ConsumerDemand, ...]:
        """Demand by the kind of proxy that reads the slices of a Service where it starts."""
        if proxy_name_of(service) is not None:
            return (ConsumerDemand(self.labelled_consumer, self.demand),)
        return self._consumers

    def reads_slice_groups(self, service: Service) -> bool | None:
        """Whether a proxy of the cluster may read the slice groups of a Service; None while that is not known."""
        if self.configuration.subsetting.encoding == "hints":
            return True
        if proxy_name_of(service) is not None:
            return reads_slice_groups(self.labelled_consumer, self.configuration.gates)
        return self.slice_groups_seen if self._has_reader_of_slice_groups else False

    @cached_property
    def _has_reader_of_slice_groups(self) -> bool:
        # Asked by each decision; a cluster may have thousands of nodes.
        gates, consumers = self.configuration.gates, (self.consumer, *self.consumer_by_node.values())
        return any(reads_slice_groups(consumer, gates) for consumer in consumers)

    def requested(self, service: Service) -> RequestedApproach:
        """What a Service requests of this cluster."""
        read = self.reads_slice_groups(service) is not False
        return requested_approach(service, self.configuration, RuleLog(), slice_groups_read=read)

    @property
    def same_zone_value(self) -> str:
        """The value of ``spec.trafficDistribution`` that asks for the own zone, so that all proxies honor it: some know
        only its older name.
        """
        consumers = (self.consumer, *self.consumer_by_node.values())
        lists = [consumer.distributions for consumer in consumers if consumer.distributions]
        needs_old = any(names.PREFER_CLOSE in values and names.PREFER_SAME_ZONE not in values for values in lists)
        return names.PREFER_CLOSE if needs_old else names.PREFER_SAME_ZONE

    def consumer_on(self, node: str, service: Service) -> Consumer:
        """The kind of proxy that serves a Service on a node."""
        if proxy_name_of(service) is not None:
            return self.labelled_consumer
        return self.consumer_by_node.get(node, self.consumer)

    @cached_property
    def _consumers(self) -> tuple[ConsumerDemand, ...]:
        return split_demand(self.demand, self.consumer, self.consumer_by_node)

    def affects_all_services(self, new: "ClusterState") -> bool:
        """Whether every Service needs a new plan when this state becomes the ``new`` one.

        The zones of single Nodes do not matter here: they affect the Services that have Pods there. But without any
        Node, Pods count without one. Nor do ``service_parts``: they affect the Services whose parts differ.
        """
        return (
            self.demand != new.demand
            or bool(self.node_zones) != bool(new.node_zones)
            or self.configuration != new.configuration
            or (self.pods_known, self.consumer) != (new.pods_known, new.consumer)
            or self.slice_groups_seen != new.slice_groups_seen
            or (self.consumer_by_node, self.labelled_consumer) != (new.consumer_by_node, new.labelled_consumer)
        )
