"""The objects of a cluster at one time, from files (output of ``kubectl get -o yaml``) or from its API server."""

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, BinaryIO, Final

from zoneward.kube import names
from zoneward.kube.adoption_marks import effective_selector
from zoneward.kube.gc_tuning import without_gc
from zoneward.kube.input_error import InputError
from zoneward.kube.input_files import STDIN, STDIN_NAME, expand, load
from zoneward.kube.leases import CONTROLLER_LEASE
from zoneward.kube.object_reader import read_objects
from zoneward.kube.objects import (
    ConfigMap,
    DaemonSet,
    EndpointSlice,
    Node,
    ObjectKey,
    Pod,
    ProxyPod,
    Service,
    node_zone,
)
from zoneward.kube.struct_decoder import object_title
from zoneward.kube.workload_objects import AnyObject, ClusterScoped, Lease, WorkloadObject

if TYPE_CHECKING:
    from zoneward.client.auth.client_config import ClientConfig

MAX_WARNINGS: Final = 20
"""Warnings about single objects; a last one counts the others."""


class PodIndex:
    """Finds the Pods of a selector by the labels with these ``keys``, without a search through all Pods."""

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
        """Pods of the namespace that have all labels of the selector, in their order.

        An empty selector selects nothing: other programs manage the endpoints of such a Service.
        """
        if not selector:
            return ()
        # The label with the fewest Pods has the fewest candidates.
        known = [label for label in selector.items() if label[0] in self._keys]
        if known:
            candidates = min((self._pods.get((namespace, *label), []) for label in known), key=len)
        else:
            candidates = [pod for pod in self._all if pod.metadata.namespace == namespace]
        return tuple(pod for pod in candidates if selector.items() <= (pod.metadata.labels or {}).items())


@dataclass(frozen=True)
class Snapshot:
    """All known objects of a cluster without duplicates, in the order given."""

    services: tuple[Service, ...] = ()
    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    slices: tuple[EndpointSlice, ...] = ()
    daemon_sets: tuple[DaemonSet, ...] = ()
    """DaemonSets of node proxies; `config_maps` has their settings."""
    config_maps: tuple[ConfigMap, ...] = ()
    workload_objects: tuple[WorkloadObject, ...] = ()
    """Workloads, autoscalers, volumes and Leases, which only checks read."""
    skipped: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Number of skipped objects by ``apiVersion/Kind``."""
    warnings: tuple[str, ...] = ()
    """Lines about duplicate and unreadable objects."""
    lists_pods: bool = False
    """Whether Pods were listed: then a snapshot without Pods means a cluster without Pods."""
    unread_proxy_objects: tuple[str, ...] = ()
    """Why some objects of node proxies could not be read, one line per reason."""
    unread_workloads: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Kinds of workload objects that could not be listed, with the reasons."""
    lists_workloads: bool = False
    """Whether workload objects were listed: then missing ones of other than the unread kinds do not exist."""

    @property
    def node_names(self) -> frozenset[str] | None:
        """None without Nodes."""
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
        """A snapshot of these objects, deduplicated by kind and name: the last one wins.

        ``skipped`` is read after ``objects``, which may count into it while they are read.
        """
        builder = _SnapshotBuilder()
        for obj in objects:
            builder.add(obj, "")
        snapshot = builder.snapshot(skipped or {}, lists_pods=lists_pods, more_warnings=tuple(warnings))
        return replace(snapshot, unread_proxy_objects=unread_proxy_objects) if unread_proxy_objects else snapshot

    @property
    def has_pods(self) -> bool:
        """Whether endpoints come from Pods. If the files have none, except those of node proxies, they come from
        EndpointSlices.
        """
        return self.lists_pods or any(not isinstance(pod, ProxyPod) for pod in self.pods)

    @property
    def proxy_pods(self) -> tuple[ProxyPod, ...]:
        """The Pods in which node proxies run."""
        return tuple(pod for pod in self.pods if isinstance(pod, ProxyPod))

    def pods_of(self, service: Service) -> tuple[Pod, ...]:
        """The Pods of the Service's effective selector; none without a selector."""
        return self._pods.selected(service.metadata.namespace, effective_selector(service))

    def pods_in(self, namespace: str) -> tuple[Pod, ...]:
        """All Pods of a namespace."""
        return self._pods_by_namespace.get(namespace, ())

    def slices_of(self, service: Service) -> tuple[EndpointSlice, ...]:
        """The EndpointSlices of the Service, of all controllers."""
        return self._slices.get((service.metadata.namespace, service.metadata.name), ())

    def only(self, services: Iterable[Service]) -> "Snapshot":
        """The objects that decisions about these Services need: their Pods and EndpointSlices, and all Nodes with their
        proxies.
        """
        services = tuple(services)
        wanted = {_key(service) for service in services}
        pods = {_key(pod) for service in services for pod in self.pods_of(service)}
        slices = {_key(slice_) for service in services for slice_ in self.slices_of(service)}
        return replace(
            self,
            services=tuple(service for service in self.services if _key(service) in wanted),
            pods=tuple(pod for pod in self.pods if _key(pod) in pods or isinstance(pod, ProxyPod)),
            slices=tuple(slice_ for slice_ in self.slices if _key(slice_) in slices),
            workload_objects=tuple(self._around(services)),
            skipped=MappingProxyType({}),
            warnings=(),
            lists_pods=self.has_pods,
        )

    def _around(self, services: Iterable[Service]) -> Iterator[WorkloadObject]:
        """Workload objects in the namespaces of some Services, all volumes, and all Leases."""
        namespaces = {service.metadata.namespace for service in services}
        for obj in self.workload_objects:
            if isinstance(obj, ClusterScoped | Lease) or obj.metadata.namespace in namespaces:
                yield obj

    @cached_property
    def node_zones(self) -> Mapping[str, str | None]:
        """Zone by name of the Node; None for a Node without a zone or with an empty label."""
        zones = {node.metadata.name: node_zone(node) for node in self.nodes}
        return MappingProxyType(zones)

    @cached_property
    def _pods(self) -> PodIndex:
        # Pods have many labels, and Services select by few.
        keys = {key for service in self.services for key in effective_selector(service) or ()}
        return PodIndex(self.pods, keys=keys)

    @cached_property
    def _pods_by_namespace(self) -> dict[str, tuple[Pod, ...]]:
        pods = defaultdict[str, list[Pod]](list)
        for pod in self.pods:
            pods[pod.metadata.namespace].append(pod)
        return {namespace: tuple(members) for namespace, members in pods.items()}

    @cached_property
    def _slices(self) -> dict[tuple[str, str], tuple[EndpointSlice, ...]]:
        slices = defaultdict[tuple[str, str], list[EndpointSlice]](list)
        for slice_ in self.slices:
            if service := (slice_.metadata.labels or {}).get(names.SERVICE_NAME_LABEL):
                slices[slice_.metadata.namespace, service].append(slice_)
        return {service: tuple(slices_of_service) for service, slices_of_service in slices.items()}


def _key(obj: Service | Pod | EndpointSlice) -> ObjectKey:
    return obj.metadata.namespace, obj.metadata.name


def read_snapshot(paths: Sequence[str], *, stdin: BinaryIO | None) -> Snapshot:
    """All objects in files, directories and, for ``-``, standard input. Raises InputError.

    The last one of duplicate objects wins, at the position of the first, with a warning.
    """
    builder, skipped, sources = _SnapshotBuilder(), Counter[str](), list[str]()
    with without_gc():
        for file in expand(paths):
            sources.append(STDIN_NAME if file == STDIN else file)
            # Keep no reference to the bytes, so that they are freed before the next file.
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
    """All Nodes of a live cluster with the objects of their proxies, and the Services, Pods and EndpointSlices of these
    namespaces, or of all with None.

    ``workloads`` adds workloads, autoscalers, volumes and the controller's Leases, if permitted. Raises InputError.

    The lists of different kinds may be of different times. An object that cannot be decoded is skipped with a warning:
    one tenant must not break the command for all.
    """
    # Import the client only for a live cluster: it takes time.
    import asyncio

    from zoneward.client.api_errors import CallFailed
    from zoneward.client.error_messages import to_input_error
    from zoneward.client.list_pager import ListScope, list_resources
    from zoneward.client.list_watch_decoder import UnreadableObject, skipped_message
    from zoneward.client.optional_objects import list_proxy_objects, list_workload_objects
    from zoneward.client.resources import CACHED_RESOURCES
    from zoneward.client.transport import Transport

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
                    # List Nodes once.
                    resources = tuple(resource for resource in resources if resource.namespaced)
                proxy_objects = await proxies
            finally:
                proxies.cancel()
                # The task must end before the connections are closed.
                await asyncio.wait((proxies,))
            known = {_key(pod) for pod in proxy_objects.pods}
            others = (obj for obj in objects if not isinstance(obj, Pod) or _key(obj) not in known)
            snapshot = Snapshot.of(
                (*others, *proxy_objects.pods, *proxy_objects.daemon_sets, *proxy_objects.config_maps),
                lists_pods=True,
                warnings=map(skipped_message, unreadable),
                unread_proxy_objects=proxy_objects.unread,
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
    """Objects by kind and name, with the name of their file or an empty string."""

    def __init__(self) -> None:
        self._objects: dict[tuple[type[AnyObject], str, str], tuple[AnyObject, str]] = {}
        self._warnings: list[str] = []
        self._repeated = 0

    def add(self, obj: AnyObject, source: str) -> None:
        namespace = "" if isinstance(obj, Node) else obj.metadata.namespace
        key = (type(obj), namespace, obj.metadata.name)
        earlier = self._objects.get(key)
        if earlier is not None:
            self._warn(obj, earlier[1], source)
        # A duplicate keeps the position of the first.
        self._objects[key] = (obj, source)

    def snapshot(
        self, skipped: Mapping[str, int], *, lists_pods: bool = False, more_warnings: Sequence[str] = ()
    ) -> Snapshot:
        objects = [obj for obj, _ in self._objects.values()]
        warnings = list(self._warnings)
        if self._repeated > len(warnings):
            warnings.append(f"{self._repeated - len(warnings)} more objects are duplicates: the last ones win")
        warnings += more_warnings[:MAX_WARNINGS]
        if len(more_warnings) > MAX_WARNINGS:
            warnings.append(f"skipped {len(more_warnings) - MAX_WARNINGS} more objects that cannot be read")
        return Snapshot(
            services=tuple(obj for obj in objects if isinstance(obj, Service)),
            nodes=tuple(obj for obj in objects if isinstance(obj, Node)),
            pods=tuple(obj for obj in objects if isinstance(obj, Pod)),
            slices=tuple(obj for obj in objects if isinstance(obj, EndpointSlice)),
            daemon_sets=tuple(obj for obj in objects if isinstance(obj, DaemonSet)),
            config_maps=tuple(obj for obj in objects if isinstance(obj, ConfigMap)),
            workload_objects=tuple(obj for obj in objects if isinstance(obj, WorkloadObject)),
            skipped=MappingProxyType(dict(skipped)),
            warnings=tuple(warnings),
            lists_pods=lists_pods,
        )

    def _warn(self, obj: AnyObject, earlier: str, later: str) -> None:
        self._repeated += 1
        if len(self._warnings) == MAX_WARNINGS:
            return
        if earlier != later:
            where = f", in {earlier} and in {later}: the one in {later} wins"
        else:
            where = f" in {later}: the last one wins" if later else ": the last one wins"
        self._warnings.append(f"{object_title(obj)} is a duplicate{where}")
