"""A Service with everything that its plan depends on, kept and mended: a change costs what it changes.

The desired endpoints are kept by what makes them alike to a decision (`zoneward.routing.placement.crowd`), and slices
are looked into only where they may differ (`zoneward.slices.kept_family`). A plan after a few changes costs these
changes, the slices that they touch, zones squared, and a name or two of every slice. What all endpoints depend on (the
Service's ports and families, settings) is rare, and costs as much as a start. So does every plan with
``--compat=upstream`` or without Pods: there all slices are looked into.
"""

from collections.abc import Container, Hashable, Iterable, Mapping

from zoneward.kube.adoption import selector_of
from zoneward.kube.objects import EndpointSlice, Pod, Service
from zoneward.routing.service_conditions import conditions_of
from zoneward.routing.service_events import events_of, upstream_events_of
from zoneward.slices.endpoints import IPV4, IPV6, Recipe, address_types
from zoneward.slices.kept_family import KeptFamily
from zoneward.slices.kept_slices import KeptSlices, in_order
from zoneward.slices.planned import ServicePlan, Surroundings
from zoneward.slices.planning import plan_family, plan_unmanaged, replaced_and_others
from zoneward.slices.previous import agreed


class KeptService:
    """One Service. ``pods`` are those its selector matches, ``slices`` all that name it, whoever manages them.

    A plan's hints and groups, one by one, have to be asked for before the next change. ``once``: one plan will be made,
    and nothing is remembered for another.
    """

    def __init__(
        self,
        service: Service,
        surroundings: Surroundings,
        *,
        pods: Iterable[Pod] = (),
        slices: Iterable[EndpointSlice] = (),
        once: bool = False,
    ) -> None:
        self._service = service
        self._surroundings = surroundings
        self._once = once
        self._pods: dict[Hashable, Pod] = {(pod.metadata.namespace, pod.metadata.name): pod for pod in pods}
        self._slices = {each.metadata.name: each for each in slices}
        # In the order in which slices came, as a snapshot has them.
        self._ranks = {name: rank for rank, name in enumerate(self._slices)}
        self._next_rank = len(self._ranks)
        # Made when a plan is asked for, and then mended; None: they have to be made anew.
        self._families: dict[str, KeptFamily] | None = None
        self._books: dict[str, KeptSlices] = {}

    # --- changes ------------------------------------------------------------------------------------------------------

    def pod(self, key: Hashable, pod: Pod | None) -> None:
        """A Pod came, changed, or went (or is no longer selected). Its key is its namespace and name."""
        old = self._pods.pop(key, None) if pod is None else self._pods.get(key)
        if pod is not None:
            self._pods[key] = pod
        if old is pod or self._families is None:
            return
        if not self._surroundings.pods_known or tuple(self._families) != self._address_types():
            self._families = None
            return
        for family in self._families.values():
            family.change(old, pod)

    def slice(self, name: str, slice_: EndpointSlice | None) -> None:
        """A slice came, changed, or went (or names another Service)."""
        old = self._slices.pop(name, None) if slice_ is None else self._slices.get(name)
        if slice_ is None:
            self._ranks.pop(name, None)
        else:
            self._slices[name] = slice_
            if name not in self._ranks:
                self._ranks[name] = self._next_rank
                self._next_rank += 1
        if self._families is None:
            return
        if not self._surroundings.pods_known:
            self._families = None
            return
        if old is not None and (slice_ is None or slice_.address_type != old.address_type):
            family = self._families.get(old.address_type)
            if family is not None:
                family.drop_slice(name)
            else:
                self._book(old.address_type).drop(name)
        if slice_ is not None:
            family = self._families.get(slice_.address_type)
            if family is not None:
                family.put_slice(slice_, self._ranks[name])
            else:
                self._book(slice_.address_type).put(slice_, self._ranks[name])

    def service(self, service: Service) -> None:
        """The Service changed. What endpoints do not depend on (status, settings of routing) costs nothing here."""
        if _shape(self._service) != _shape(service):
            self._families = None
        self._service = service

    def surroundings(self, surroundings: Surroundings) -> None:
        """Nodes or settings changed: demand alone costs nothing here, a Node the Pods on it.

        Whoever keeps the same ``node_zones`` while no Node comes, goes or changes its zone saves the comparison.
        """
        before, self._surroundings = self._surroundings, surroundings
        zones, zones_before = surroundings.node_zones, before.node_zones
        if (
            before.configuration != surroundings.configuration
            or before.pods_known != surroundings.pods_known
            or bool(zones) != bool(zones_before)
        ):
            self._families = None
        elif self._families is not None and zones is not zones_before and zones != zones_before:
            nodes = _changed(zones_before, zones)
            pods = [pod for pod in self._pods.values() if pod.spec.node_name in nodes]
            recipe = self._recipe()
            for family in self._families.values():
                family.renew(recipe, pods)

    @property
    def open_slices(self) -> int:
        """How many slices the next plan has to look into, as far as can be told before it decides."""
        if self._families is None:
            return len(self._slices)
        return sum(len(family.unsettled()) for family in self._families.values())

    # --- the plan -----------------------------------------------------------------------------------------------------

    def plan(self, *, trigger_time: str | None = None, taken: Container[str] = ()) -> ServicePlan:
        """The plan of all that is known now.

        ``taken`` holds names of slices elsewhere in the namespace that new ones must avoid; ``trigger_time`` (RFC 3339)
        goes into whatever is written.
        """
        service, surroundings = self._service, self._surroundings
        if service.spec.type == "ExternalName":
            return ServicePlan(service, (), (), (), surplus=self._by_manager()[0])
        if not selector_of(service):
            return plan_unmanaged(service, *self._by_manager(), surroundings)
        if self._families is None:
            self._families = self._made()
        created: set[str] = set()
        plans = []
        for family in self._families.values():
            plan = plan_family(
                family,
                service,
                surroundings,
                trigger_time=trigger_time,
                taken=(taken, self._slices, created),
                once=self._once or not surroundings.pods_known,
            )
            created.update(each.metadata.name for each in plan.changes.create)
            plans.append(plan)
        decisions = {plan.address_type: plan.decision for plan in plans}
        told = (service.status.conditions or ()) if service.status else ()
        if surroundings.configuration.upstream:
            events = upstream_events_of(decisions, conditions=told)
        else:
            said = {each: agreed(self._books[each].said) if each in self._books else None for each in (IPV4, IPV6)}
            events = events_of(service, decisions, in_force=said)
        return ServicePlan(service, tuple(plans), conditions_of(decisions), events, self._surplus())

    def _made(self) -> dict[str, KeptFamily]:
        service, surroundings = self._service, self._surroundings
        self._books = {}
        for name, each in self._slices.items():
            self._book(each.address_type).put(each, self._ranks[name])
        upstream = surroundings.configuration.upstream
        recipe = self._recipe()
        families = {}
        for address_type in self._address_types():
            family = families[address_type] = KeptFamily(
                address_type,
                self._book(address_type),
                recipe,
                apart=upstream,
                # A Pod that has none of the ports serves nobody: it is listed, and no proxy ever picks it.
                portless=upstream or not service.spec.ports,
            )
            family.fill(self._pods.values() if surroundings.pods_known else None)
        return families

    def _address_types(self) -> tuple[str, ...]:
        spec = self._service.spec
        if spec.ip_families or spec.cluster_ip or self._surroundings.configuration.upstream:
            return address_types(self._service)
        return address_types(self._service, self._pods.values())

    def _recipe(self) -> Recipe:
        zones = self._surroundings.node_zones
        # Without any Node in the snapshot nothing says that a Pod's Node is gone.
        keep = not zones and not self._surroundings.configuration.upstream
        return Recipe(self._service, node_zones=zones, keep_without_node=keep)

    def _book(self, address_type: str) -> KeptSlices:
        book = self._books.get(address_type)
        if book is None:
            configuration = self._surroundings.configuration
            book = self._books[address_type] = KeptSlices(self._service, configuration, once=self._once)
        return book

    def _surplus(self) -> tuple[EndpointSlice, ...]:
        """Slices of families that the Service no longer has."""
        left = [book for address_type, book in self._books.items() if address_type not in (self._families or ())]
        own = {name: each for book in left for name, each in book.own.items()}
        replaced = {name: each for book in left for name, each in book.replaced.items()}
        kinds = (own,) if self._service.metadata.deletion_timestamp is not None else (own, replaced)
        return tuple(each.slice for kind in kinds for each in in_order(kind))

    def _by_manager(self) -> tuple[tuple[EndpointSlice, ...], tuple[EndpointSlice, ...], tuple[EndpointSlice, ...]]:
        """Slices of all families: our own, those that they replace, and all others."""
        book = KeptSlices(self._service, self._surroundings.configuration, once=True)
        for name, each in self._slices.items():
            book.put(each, self._ranks[name])
        return tuple(each.slice for each in in_order(book.own)), *replaced_and_others(book, self._service)


def _shape(service: Service) -> tuple[object, ...]:
    """What endpoints and the sorting of slices depend on."""
    meta, spec = service.metadata, service.spec
    publishes = spec.publish_not_ready_addresses is True
    families = spec.ip_families, spec.cluster_ip
    return meta.uid, meta.namespace, meta.name, meta.deletion_timestamp is None, spec.ports, families, publishes


def _changed(before: Mapping[str, str | None], after: Mapping[str, str | None]) -> set[str]:
    """Nodes that came, went, or are in another zone."""
    nowhere = object()
    return {name for name in before.keys() | after.keys() if before.get(name, nowhere) != after.get(name, nowhere)}
