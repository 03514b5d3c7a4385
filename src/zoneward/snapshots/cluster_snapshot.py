"""The objects of a cluster at one moment, from files (what ``kubectl get -o yaml`` prints) or from its API server."""

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, BinaryIO, Final

from zoneward.kube import names
from zoneward.kube.adoption_marks import effective_selector
from zoneward.kube.controller_lease import CONTROLLER_LEASE
from zoneward.kube.gc_tuning import without_gc
from zoneward.kube.input_error import InputError
from zoneward.kube.input_files import STDIN, STDIN_NAME, expand, load
from zoneward.kube.object_reader import read_objects
from zoneward.kube.objects import (
    ConfigMap,
    DaemonSet,
    EndpointSlice,
    Node,
    Pod,
    ProxyPod,
    Service,
    node_zone,
)
from zoneward.kube.struct_decoder import object_title
from zoneward.kube.workload_objects import AnyObject, Lease, PersistentVolume, WorkloadObject

if TYPE_CHECKING:
    from zoneward.client.auth.client_config import ClientConfig

MAX_WARNINGS: Final = 20
"""Warnings about single objects; of the others only the number is reported."""


class PodIndex:
    """Finds the Pods that a selector selects without a look at all others, by those labels whose names are ``keys``."""

    def __init__(self, pods: Sequence[Pod], *, keys: Container[str]) -> None:
        self._pods: dict[tuple[str, str, str], list[Pod]] = {}
        self._all = pods
        self._keys = keys
        by_label = self._pods
        for pod in pods:
            namespace = pod.metadata.namespace
            for key, value in (pod.metadata.labels or {}).items():
                if key not in keys:
                    continue
                label = (namespace, key, value)
                if label in by_label:
                    by_label[label].append(pod)
                else:
                    by_label[label] = [pod]

    def selected(self, namespace: str, selector: Mapping[str, str] | None) -> tuple[Pod, ...]:
        """Pods of the namespace that have all labels of the selector, in their first order.

        An empty selector selects nothing: such a Service has its endpoints from elsewhere.
        """
        if not selector:
            return ()
        found = self.with_rarest_label(namespace, selector)
        return tuple(pod for pod in found if selector.items() <= (pod.metadata.labels or {}).items())

    def with_rarest_label(self, namespace: str, selector: Mapping[str, str] | None) -> Sequence[Pod]:
        """Pods of the namespace that have the label of a selector that the fewest have."""
        known = [label for label in (selector or {}).items() if label[0] in self._keys]
        if selector and not known:
            return [pod for pod in self._all if pod.metadata.namespace == namespace]
        return min((self._pods.get((namespace, *label), ()) for label in known), key=len, default=())


@dataclass(frozen=True)
class Snapshot:
    """All objects of a cluster that are known, each once, in the order in which they were given."""

    services: tuple[Service, ...] = ()
    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    slices: tuple[EndpointSlice, ...] = ()
    daemon_sets: tuple[DaemonSet, ...] = ()
    """Those of the nodes' proxies, and `config_maps` with their settings."""
    config_maps: tuple[ConfigMap, ...] = ()
    workload_objects: tuple[WorkloadObject, ...] = ()
    """Workloads, autoscalers, volumes and Leases, which only checks read."""
    skipped: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """How many objects were of a kind that is not read, by ``apiVersion/Kind``."""
    warnings: tuple[str, ...] = ()
    """Lines to be shown: what was given twice, and what could not be read."""
    lists_pods: bool = False
    """Whether Pods were listed: then no Pods in the snapshot means that the cluster has none."""
    unread_proxy_objects: tuple[str, ...] = ()
    """What could not be read of what says which proxies run on the nodes: a line for each reason."""
    unread_workloads: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Kinds of workload objects that could not be listed, each with the reason in a phrase."""
    lists_workloads: bool = False
    """Whether workload objects were listed: then those that are not here do not exist, except the unread ones."""

    @property
    def node_names(self) -> frozenset[str] | None:
        """None where no Nodes are known."""
        return frozenset(node.metadata.name for node in self.nodes) or None

    @classmethod
    def of(
        cls,
        objects: Iterable[AnyObject],
        *,
        skipped: Mapping[str, int] | None = None,
        lists_pods: bool = False,
        warnings: Iterable[str] = (),
        unread_proxy_objects: tuple[str, ...] = (),
    ) -> "Snapshot":
        """A snapshot of objects that are at hand. Of objects with the same kind and name the later one counts.

        ``skipped`` is looked at last, so that ``of(read(source, data, skipped=count), skipped=count)`` says all.
        """
        builder = _SnapshotBuilder()
        for obj in objects:
            builder.add(obj, "")
        found = builder.snapshot(skipped or {}, lists_pods=lists_pods, more_warnings=tuple(warnings))
        return replace(found, unread_proxy_objects=unread_proxy_objects) if unread_proxy_objects else found

    @property
    def has_pods(self) -> bool:
        """Whether it is known which Pods there are. Files without any leave that to EndpointSlices; Pods of nodes'
        proxies may be there for themselves.
        """
        return self.lists_pods or any(not isinstance(pod, ProxyPod) for pod in self.pods)

    @property
    def proxy_pods(self) -> tuple[ProxyPod, ...]:
        """The Pods in which nodes' proxies run, as far as their programs are known."""
        return tuple(pod for pod in self.pods if isinstance(pod, ProxyPod))

    def pods_of(self, service: Service) -> tuple[Pod, ...]:
        """The Pods that the Service selects, by its spec or by its mark; none where it has no selector."""
        return self._pods.selected(service.metadata.namespace, effective_selector(service))

    def most_pods_of(self, service: Service) -> int:
        """As many Pods as the Service selects, or more, without a look at them."""
        return len(self._pods.with_rarest_label(service.metadata.namespace, effective_selector(service)))

    def slices_of(self, service: Service) -> tuple[EndpointSlice, ...]:
        """The EndpointSlices that name the Service, whichever controller manages them."""
        return self._slices.get((service.metadata.namespace, service.metadata.name), ())

    def only(self, services: Iterable[Service]) -> "Snapshot":
        """What decisions about some of its Services need: their Pods and EndpointSlices, and all Nodes and their
        proxies.
        """
        services = tuple(services)
        pods = {id(pod) for service in services for pod in self.pods_of(service)}
        slices = {id(each) for service in services for each in self.slices_of(service)}
        wanted = set(map(id, services))
        return Snapshot(
            services=tuple(each for each in self.services if id(each) in wanted),
            nodes=self.nodes,
            pods=tuple(each for each in self.pods if id(each) in pods or isinstance(each, ProxyPod)),
            slices=tuple(each for each in self.slices if id(each) in slices),
            daemon_sets=self.daemon_sets,
            config_maps=self.config_maps,
            unread_proxy_objects=self.unread_proxy_objects,
            workload_objects=tuple(self._around(services)),
            lists_pods=self.has_pods,
            unread_workloads=self.unread_workloads,
            lists_workloads=self.lists_workloads,
        )

    def _around(self, services: Iterable[Service]) -> Iterator[WorkloadObject]:
        """Workload objects in the namespaces of some Services, volumes, which are in none, and all Leases."""
        namespaces = {each.metadata.namespace for each in services}
        for each in self.workload_objects:
            if isinstance(each, PersistentVolume | Lease) or each.metadata.namespace in namespaces:
                yield each

    @cached_property
    def node_zones(self) -> Mapping[str, str | None]:
        """Zone by name of the Node; None for a Node without a zone. An empty label is none."""
        zones = {node.metadata.name: node_zone(node) for node in self.nodes}
        return MappingProxyType(zones)

    @cached_property
    def _pods(self) -> PodIndex:
        # Pods have many labels, and Services ask for few.
        keys = {key for service in self.services for key in effective_selector(service) or ()}
        return PodIndex(self.pods, keys=keys)

    @cached_property
    def _slices(self) -> dict[tuple[str, str], tuple[EndpointSlice, ...]]:
        slices = defaultdict[tuple[str, str], list[EndpointSlice]](list)
        for slice_ in self.slices:
            if service := (slice_.metadata.labels or {}).get(names.SERVICE_NAME_LABEL):
                slices[slice_.metadata.namespace, service].append(slice_)
        return {service: tuple(found) for service, found in slices.items()}


def read_snapshot(paths: Sequence[str], *, stdin: BinaryIO | None) -> Snapshot:
    """All objects in files, directories and, for ``-``, standard input. Raises InputError.

    Of an object that is given twice the later one counts, in the place of the first, with a warning.
    """
    builder, skipped, sources = _SnapshotBuilder(), Counter[str](), list[str]()
    with without_gc():
        for file in expand(paths):
            sources.append(STDIN_NAME if file == STDIN else file)
            # No name is bound to the bytes: they are gone before the next file is read.
            for obj in read_objects(sources[-1], load(file, stdin=stdin), skipped=skipped):
                builder.add(obj, sources[-1])
    snapshot = builder.snapshot(skipped)
    if not (snapshot.services or snapshot.nodes or snapshot.pods or snapshot.slices):
        got = ", ".join(f"{count} {kind}" for kind, count in skipped.most_common(5))
        where = ", ".join(sources[:3]) + (f" and {len(sources) - 3} more" if len(sources) > 3 else "")
        raise InputError(where, f"expected at least one Service, Node, Pod or EndpointSlice, got {got or 'none'}")
    return snapshot


def read_cluster(
    config: "ClientConfig",
    *,
    namespaces: Sequence[str] | None,
    workloads: bool = False,
    lease_name: str = CONTROLLER_LEASE,
) -> Snapshot:
    """Every Node of a live cluster and what says which proxies run there, and the Services, Pods and EndpointSlices of
    some namespaces, or with None of all.

    With ``workloads`` also those, their autoscalers, their volumes and the controller's Leases, as far as there is
    permission.

    Raises InputError. Each kind is as of one moment, but not of the same one. An object that cannot be decoded is left
    out with a warning: one tenant's object must not keep everybody from an answer.
    """
    # Reading files needs no client, and does not wait for its libraries.
    import asyncio

    from zoneward.client.api_errors import CallFailed
    from zoneward.client.error_messages import to_input_error
    from zoneward.client.list_pager import ListScope, list_resources
    from zoneward.client.list_watch_decoder import UnreadableObject, skipped_message
    from zoneward.client.proxy_objects import list_proxy_objects
    from zoneward.client.resources import CACHED_RESOURCES
    from zoneward.client.transport import Transport
    from zoneward.client.workload_lists import list_workload_objects

    async def read() -> Snapshot:
        async with Transport(config) as transport:
            unreadable: list[UnreadableObject] = []
            objects: list[AnyObject] = []
            resources = CACHED_RESOURCES
            proxies = asyncio.create_task(list_proxy_objects(transport))
            try:
                for namespace in (None,) if namespaces is None else namespaces:
                    scope = ListScope(namespace=namespace)
                    objects += await list_resources(transport, resources, scope, on_unreadable=unreadable.append)
                    # Nodes are in no namespace: once is enough.
                    resources = tuple(each for each in resources if each.namespaced)
                found = await proxies
            finally:
                proxies.cancel()
                # Nothing may use the connections when they are closed.
                await asyncio.wait((proxies,))
            known = {(pod.metadata.namespace, pod.metadata.name) for pod in found.pods}
            others = (
                each
                for each in objects
                if not isinstance(each, Pod) or (each.metadata.namespace, each.metadata.name) not in known
            )
            snapshot = Snapshot.of(
                (*others, *found.pods, *found.daemon_sets, *found.config_maps),
                lists_pods=True,
                warnings=map(skipped_message, unreadable),
                unread_proxy_objects=found.unread,
            )
            if not workloads:
                return snapshot
            workload_objects, unread = await list_workload_objects(
                transport, namespaces=namespaces, lease_name=lease_name, now=datetime.now(UTC)
            )
            return replace(snapshot, workload_objects=workload_objects, unread_workloads=unread, lists_workloads=True)

    try:
        return asyncio.run(read())
    except CallFailed as error:
        raise to_input_error(error, config, now=datetime.now(UTC)) from error


class _SnapshotBuilder:
    """Objects by kind and name, each with its source: a file's name, or nothing."""

    def __init__(self) -> None:
        self._things: dict[tuple[type[AnyObject], str, str], tuple[AnyObject, str]] = {}
        self._warnings: list[str] = []
        self._repeated = 0

    def add(self, obj: AnyObject, source: str) -> None:
        namespace = "" if isinstance(obj, Node) else obj.metadata.namespace
        key = (type(obj), namespace, obj.metadata.name)
        earlier = self._things.get(key)
        if earlier is not None:
            self._warn(obj, earlier[1], source)
        # A key that is there already keeps its place.
        self._things[key] = (obj, source)

    def snapshot(
        self, skipped: Mapping[str, int], *, lists_pods: bool = False, more_warnings: Sequence[str] = ()
    ) -> Snapshot:
        things = [obj for obj, _ in self._things.values()]
        warnings = list(self._warnings)
        if self._repeated > len(warnings):
            warnings.append(f"{self._repeated - len(warnings)} more objects are given twice: the later ones count")
        warnings += more_warnings[:MAX_WARNINGS]
        if len(more_warnings) > MAX_WARNINGS:
            warnings.append(f"left out, as they cannot be read: {len(more_warnings) - MAX_WARNINGS} more objects")
        return Snapshot(
            services=tuple(obj for obj in things if isinstance(obj, Service)),
            nodes=tuple(obj for obj in things if isinstance(obj, Node)),
            pods=tuple(obj for obj in things if isinstance(obj, Pod)),
            slices=tuple(obj for obj in things if isinstance(obj, EndpointSlice)),
            daemon_sets=tuple(obj for obj in things if isinstance(obj, DaemonSet)),
            config_maps=tuple(obj for obj in things if isinstance(obj, ConfigMap)),
            workload_objects=tuple(obj for obj in things if isinstance(obj, WorkloadObject)),
            skipped=MappingProxyType(dict(skipped)),
            warnings=tuple(warnings),
            lists_pods=lists_pods,
        )

    def _warn(self, obj: AnyObject, earlier: str, later: str) -> None:
        self._repeated += 1
        if len(self._warnings) == MAX_WARNINGS:
            return
        if earlier != later:
            where = f", in {earlier} and in {later}: the one in {later} counts"
        else:
            where = f" in {later}: the later one counts" if later else ": the later one counts"
        self._warnings.append(f"{object_title(obj)} is given twice{where}")
