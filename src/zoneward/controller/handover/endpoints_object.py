"""Writes the Endpoints objects of adopted Services (``--endpoints keep``) as the built-in controller would.

The only difference: the label ``skip-mirror`` is always set. Without a selector on the Service the mirroring controller
would mirror the object into slices, and every endpoint would be listed twice.

A separate queue and worker write the objects: Endpoints are less urgent than slices, and a missing permission must not
delay slices. The object is read before its first write and after a failure. In between, the last written state is
remembered, so that a change costs one write.
"""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from math import ceil
from typing import Final

from msgspec.structs import replace

from zoneward.client.api_errors import CallFailed, Conflict, NotFound, WritesSuspended
from zoneward.client.backoff import Backoff
from zoneward.client.informer_cache import InformerCache
from zoneward.client.resources import ENDPOINTS
from zoneward.client.writer import WriteOutcome, Writer, write_outcome
from zoneward.controller.controller_metrics import ControllerMetrics
from zoneward.controller.queue.work_queue import Batching, RequeueDelay, WorkQueue, namespace_of
from zoneward.daemon.log import Log, UnexpectedErrorLog
from zoneward.kube.adoption_marks import ENDPOINTS_ANNOTATION, SKIP_MIRROR_LABEL, is_adopted
from zoneward.kube.names import DOMAIN, HEADLESS, HEADLESS_LABEL, TRIGGER_TIME_ANNOTATION
from zoneward.kube.objects import (
    EndpointAddress,
    EndpointPort,
    Endpoints,
    EndpointSubset,
    ObjectKey,
    ObjectMeta,
    Pod,
    Service,
)
from zoneward.slices.endpoints import IPV4, IPV6, endpoint_of, has_endpoint, ports_of

MAX_ADDRESSES: Final = 1_000
"""Further addresses are left out, and an annotation says so."""
OVER_CAPACITY_ANNOTATION: Final = "endpoints.kubernetes.io/over-capacity"
TRUNCATED: Final = "truncated"
MANAGED_BY_LABEL: Final = "endpoints.kubernetes.io/managed-by"
MANAGER: Final = f"endpoint-controller.{DOMAIN}"
_KEEP: Final = "keep"
_Port = tuple[str, int, str, str]
_Host = tuple[str, str]
"""Address and UID of the Pod, in the order in which upstream sorts them."""


def has_own_endpoints_object(service: Service) -> bool:
    """Whether Zoneward writes the Endpoints object of a Service: it was adopted, and no other controller writes it."""
    annotations = service.metadata.annotations or {}
    return is_adopted(service) and annotations.get(ENDPOINTS_ANNOTATION) == _KEEP


def updated_endpoints(
    existing: Endpoints | None, service: Service, pods: Iterable[Pod], *, trigger_time: str | None = None
) -> Endpoints | None:
    """The Endpoints object to write for a Service with these Pods, over the ``existing`` one; None: it needs no change.

    Other metadata is kept. ``trigger_time`` alone is no reason to write.
    """
    whole = subsets_of(service, pods)
    subsets = truncated(whole)
    metadata = ObjectMeta(name=service.metadata.name, namespace=service.metadata.namespace)
    if existing is not None:
        metadata = existing.metadata
        annotations = metadata.annotations or {}
        is_marked_so = annotations.get(OVER_CAPACITY_ANNOTATION) == TRUNCATED
        if (
            is_marked_so == (subsets is not whole)
            and _comparable_labels(metadata.labels) == _comparable_labels(_labels(service))
            and (existing.subsets == subsets or _are_equal(existing.subsets or (), subsets))
        ):
            return None
    annotations = dict(metadata.annotations or {})
    for name, value in (
        (TRIGGER_TIME_ANNOTATION, trigger_time),
        (OVER_CAPACITY_ANNOTATION, TRUNCATED if subsets is not whole else None),
    ):
        annotations.pop(name, None)
        if value is not None:
            annotations[name] = value
    metadata = replace(metadata, labels=_labels(service), annotations=annotations or None)
    return Endpoints(metadata=metadata, subsets=subsets)


def subsets_of(service: Service, pods: Iterable[Pod]) -> tuple[EndpointSubset, ...]:
    """All subsets, packed as upstream does: ports that the same Pods serve are in one subset.

    Addresses are sorted as upstream sorts them. Ports and subsets, which upstream sorts by a hash, are sorted by their
    values; upstream ignores their order.
    """
    spec = service.spec
    publishes = spec.publish_not_ready_addresses is True
    hosts: dict[_Host, tuple[EndpointAddress, bool]] = {}
    serving: dict[_Port | None, dict[_Host, None]] = {}
    ports: dict[_Port, EndpointPort] = {}
    for pod in pods:
        if not has_endpoint(pod) or (pod.metadata.deletion_timestamp is not None and not publishes):
            continue
        endpoint = endpoint_of(pod, service, zone=None, address_type=_family(service, pod))
        served = ports_of(service, pod)
        # Only a headless Service may do without ports.
        if endpoint is None or not (served or (not spec.ports and spec.cluster_ip == HEADLESS)):
            continue
        ip = (endpoint.addresses or ("",))[0]
        host = ip, pod.metadata.uid
        address = EndpointAddress(
            ip=ip, hostname=endpoint.hostname, node_name=endpoint.node_name, target_ref=endpoint.target_ref
        )
        assert endpoint.conditions is not None
        hosts[host] = address, endpoint.conditions.ready is True
        ports |= {_port(port): port for port in served}
        for key in map(_port, served) if served else (None,):
            serving.setdefault(key, {})[host] = None
    packed: dict[tuple[_Host, ...], list[_Port]] = {}
    for wanted, keys in serving.items():
        shared_ports = packed.setdefault(tuple(sorted(keys)), [])
        if wanted is not None:
            shared_ports.append(wanted)
    return tuple(
        EndpointSubset(
            addresses=tuple(hosts[key][0] for key in keys if hosts[key][1]) or None,
            not_ready_addresses=tuple(hosts[key][0] for key in keys if not hosts[key][1]) or None,
            ports=tuple(ports[key] for key in sorted(shared_ports)) or None,
        )
        for keys, shared_ports in sorted(packed.items(), key=lambda item: (sorted(item[1]), item[0]))
    )


def truncated(subsets: tuple[EndpointSubset, ...]) -> tuple[EndpointSubset, ...]:
    """At most `MAX_ADDRESSES`, ready ones first, from each subset in proportion, as upstream truncates; the same object
    if nothing is left out."""
    ready = sum(len(subset.addresses or ()) for subset in subsets)
    total = ready + sum(len(subset.not_ready_addresses or ()) for subset in subsets)
    if total <= MAX_ADDRESSES:
        return subsets
    cuts_ready = ready > MAX_ADDRESSES
    most = left = MAX_ADDRESSES if cuts_ready else MAX_ADDRESSES - ready
    of = ready if cuts_ready else total - ready
    shortened = []
    for subset in subsets:
        addresses = (subset.addresses if cuts_ready else subset.not_ready_addresses) or ()
        # Rounded up, so that the last ones may get less than their share.
        share = addresses[: min(left, ceil(len(addresses) / of * most))] or None
        left -= len(share or ())
        if cuts_ready:
            shortened.append(replace(subset, addresses=share, not_ready_addresses=None))
        else:
            shortened.append(replace(subset, not_ready_addresses=share))
    # An API server refuses a subset without addresses.
    return tuple(subset for subset in shortened if subset.addresses or subset.not_ready_addresses)


def _family(service: Service, pod: Pod) -> str:
    """The first address family of the Service, or else that of the Pod."""
    spec = service.spec
    if spec.ip_families:
        return spec.ip_families[0]
    ip = spec.cluster_ip if spec.cluster_ip and spec.cluster_ip != HEADLESS else pod.status.pod_ip
    return IPV6 if ":" in ip else IPV4


def _labels(service: Service) -> dict[str, str]:
    labels = dict(service.metadata.labels or {})
    labels.pop(HEADLESS_LABEL, None)
    if not service.spec.cluster_ip or service.spec.cluster_ip == HEADLESS:
        labels[HEADLESS_LABEL] = ""
    return labels | {SKIP_MIRROR_LABEL: "true", MANAGED_BY_LABEL: MANAGER}


def _comparable_labels(labels: Mapping[str, str] | None) -> dict[str, str]:
    return {name: value for name, value in (labels or {}).items() if name != HEADLESS_LABEL}


def _port(port: EndpointPort) -> _Port:
    return port.name or "", port.port or 0, port.protocol or "TCP", port.app_protocol or ""


def _are_equal(existing: Iterable[EndpointSubset], wanted: Iterable[EndpointSubset]) -> bool:
    """Whether both are equal, independent of packing. The existing object may be hostile: 1 MB can hold 100 million
    pairs of address and port, so they are counted before they are built. API servers store each pair once, so there are
    never more existing than wanted ones."""
    return _count_pairs(existing) <= _count_pairs(wanted) and _pairs(existing) == _pairs(wanted)


def _count_pairs(subsets: Iterable[EndpointSubset]) -> int:
    return sum(
        (len(subset.addresses or ()) + len(subset.not_ready_addresses or ())) * (len(subset.ports or ()) or 1)
        for subset in subsets
    )


def _pairs(subsets: Iterable[EndpointSubset]) -> set[tuple[EndpointAddress, bool, _Port | None]]:
    """Every address with every port and whether it is ready, independent of packing."""
    return {
        (address, is_ready, port)
        for subset in subsets
        for addresses, is_ready in ((subset.addresses, True), (subset.not_ready_addresses, False))
        for address in addresses or ()
        for port in ([_port(port) for port in subset.ports] if subset.ports else (None,))
    }


BATCHING: Final = Batching(period=1.0)
BACK_OFF: Final = RequeueDelay(backoff=Backoff(initial=0.5, cap=300.0, jitter=0.5), with_news=10.0)


class EndpointsObjectWriter:
    """`add` a Service after each of its syncs; `run` one worker. Endpoints of other Services are never read or
    written."""

    def __init__(
        self,
        cache: InformerCache,
        writer: Writer,
        *,
        leading: asyncio.Event,
        metrics: ControllerMetrics,
        log: Log,
        back_off: RequeueDelay | None = None,
    ) -> None:
        self._cache, self._writer = cache, writer.once()
        self._leading, self._metrics, self._log, self._unexpected = leading, metrics, log, UnexpectedErrorLog(log)
        self.queue: Final = WorkQueue[ObjectKey](
            batching=BATCHING, back_off=back_off or BACK_OFF, group_of=namespace_of
        )
        self._objects: dict[ObjectKey, Endpoints] = {}
        """The last read or written objects."""
        self._outdated: set[ObjectKey] = set()
        """Of those, the ones to read before the next write."""
        self._trigger_times: dict[ObjectKey, str] = {}
        """The earliest change of readiness that is not written yet."""

    def add(self, key: ObjectKey, *, trigger_time: str | None = None) -> None:
        """A Service was synced, deleted, or is not managed. ``trigger_time`` is that of its slices."""
        service = self._cache.services.get(*key)
        if key in self._objects or (service is not None and has_own_endpoints_object(service)):
            if trigger_time is not None:
                self._trigger_times[key] = min(trigger_time, self._trigger_times.get(key, trigger_time))
            self.queue.add(key)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits to be written."""
        depth = self.queue.depth()
        return not (depth.waiting or depth.working)

    def read_afresh(self, key: ObjectKey) -> None:
        """Read the object the next time: another writer may have changed it."""
        if key in self._objects:
            self._outdated.add(key)

    def clear(self) -> None:
        """Another replica leads from now on."""
        for memory in (self._objects, self._outdated, self._trigger_times):
            memory.clear()

    def shut_down(self) -> None:
        """End `run` after the work in progress."""
        self.queue.shut_down()

    async def run(self) -> None:
        while True:
            await self._leading.wait()
            item = await self.queue.get()
            if item is None:
                return
            key = item.key
            if not self._leading.is_set():
                # The leader writes it. It is added again once this replica leads.
                self.queue.done(key)
                continue
            try:
                writes = await self.queue.run(key, self._write(key))
            except WritesSuspended:
                # The renewal of the Lease may only be late.
                self.queue.retry(key)
            except CallFailed as error:
                self.read_afresh(key)
                self._metrics.record_api_error(error, kind=ENDPOINTS.plural)
                if write_outcome(error) is WriteOutcome.TERMINATING:
                    self.queue.done(key)
                    continue
                pause = self.queue.retry(key, error=error)
                self._log.warning(
                    "failed to write Endpoints",
                    service="/".join(key),
                    reason=type(error).__name__,
                    error=str(error),
                    tries=item.failures + 1,
                    again_in=round(pause, 3),
                )
            except Exception as error:
                # The remembered object may be wrong.
                self.read_afresh(key)
                self._unexpected.error("internal error while writing Endpoints", key, error)
                self.queue.retry(key)
            else:
                self.queue.done(key, writes=writes)

    async def _write(self, key: ObjectKey) -> int:
        """Returns the number of writes. Raises CallFailed."""
        service = self._cache.services.get(*key)
        if service is None:
            return await self._delete(key)
        if not has_own_endpoints_object(service):
            self._forget(key)
            return 0
        existing = self._objects.get(key)
        if existing is None or key in self._outdated:
            try:
                existing = self._objects[key] = await self._writer.read(ENDPOINTS, namespace=key[0], name=key[1])
            except NotFound:
                existing = None
                self._objects.pop(key, None)
            self._outdated.discard(key)
        # The current Pods, not those at the time of the request.
        pods = self._cache.pods_of(*key)
        since = self._trigger_times.pop(key, None)
        wanted = updated_endpoints(existing, service, pods, trigger_time=since)
        if wanted is None:
            return 0
        write = self._writer.create if existing is None else self._writer.update
        try:
            metadata = await write(ENDPOINTS, wanted)
        except CallFailed as error:
            if existing is None and isinstance(error, NotFound):
                # The namespace was deleted, or the server has no Endpoints at all.
                return 0
            if since is not None:
                self._trigger_times[key] = min(since, self._trigger_times.get(key, since))
            raise
        self._objects[key] = Endpoints(metadata=metadata, subsets=wanted.subsets)
        return 1

    async def _delete(self, key: ObjectKey) -> int:
        """A Service was deleted. A running Endpoints controller deletes the object too."""
        existing = self._objects.get(key)
        if existing is not None:
            uid_alone = replace(existing.metadata, resource_version=None)
            # A conflict: another writer has created the object again.
            with suppress(Conflict):
                await self._writer.delete(ENDPOINTS, Endpoints(metadata=uid_alone))
        self._forget(key)
        return 0

    def _forget(self, key: ObjectKey) -> None:
        self._objects.pop(key, None)
        self._outdated.discard(key)
        self._trigger_times.pop(key, None)
