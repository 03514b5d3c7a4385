"""Lists objects that no decision needs: those that show which proxies run on the nodes, workloads, autoscalers, volumes
and the controller's Leases. A missing permission costs a line, or some checks.
"""

from collections.abc import Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar

import msgspec

from zoneward.client.api_errors import CallFailed, Forbidden, NotFound
from zoneward.client.list_pager import ListScope, list_all
from zoneward.client.resources import (
    CONFIG_MAPS,
    DAEMON_SETS,
    PROXY_PODS,
    WORKLOAD_LEASES,
    WORKLOADS,
    WatchedResource,
    object_key_of,
)
from zoneward.client.transport_interface import ReadTransport, all_results
from zoneward.kube.json_documents import DECODE_ERRORS
from zoneward.kube.leases import without_expired_holder
from zoneward.kube.names import OVERLAY_CONFIG_MAP
from zoneward.kube.objects import ConfigMap, DaemonSet, ObjectKey, PlainMeta, ProxyPod
from zoneward.kube.proxy_programs import (
    CILIUM_CONFIG,
    KUBE_PROXY_CONFIGS,
    POD_LABELS,
    SYSTEM_NAMESPACE,
    find_program,
    reduce_config_map,
    reduce_daemon_set,
    reduce_pod,
)
from zoneward.kube.workload_objects import Lease, WorkloadObject, normalized

_T = TypeVar("_T")
_TIME_LIMIT: Final = 10.0
"""Seconds for each ConfigMap: a command must not wait long for optional objects."""


@dataclass(frozen=True, slots=True)
class ProxyObjects:
    """DaemonSets, ConfigMaps and Pods, reduced to the fields that are used. ``unread``: a line for each reason why
    some could not be read.
    """

    daemon_sets: tuple[DaemonSet, ...] = ()
    config_maps: tuple[ConfigMap, ...] = ()
    pods: tuple[ProxyPod, ...] = ()
    unread: tuple[str, ...] = ()


async def list_proxy_objects(transport: ReadTransport) -> ProxyObjects:
    """The DaemonSets of proxies, the ConfigMaps of kube-proxy and Cilium, and the Pods of proxies: those of the
    DaemonSets, and static Pods.
    """
    lost: dict[str, list[str]] = {}

    async def readable(what: str, reading: Coroutine[Any, Any, tuple[_T, ...]]) -> tuple[_T, ...]:
        """The objects; none if they cannot be read."""
        try:
            return await reading
        except NotFound:
            # A server without this kind has no such objects.
            return ()
        except CallFailed as error:
            why = "no permission" if isinstance(error, Forbidden) else error.message
            lost.setdefault(why, []).append(what)
            return ()

    # Objects that cannot be decoded are skipped.
    every = await readable("DaemonSets", list_all(transport, DAEMON_SETS, on_unreadable=lambda _unreadable: None))
    reduced = [(daemon_set, reduce_daemon_set(daemon_set)) for daemon_set in every]
    daemon_sets = tuple(daemon_set for _, daemon_set in reduced if daemon_set is not None)
    selectors = (f"{key} in ({','.join(values)})" for key, values in POD_LABELS.items())
    scopes = [ListScope(namespace=SYSTEM_NAMESPACE, label_selector=selector) for selector in selectors]
    scopes += [scope for live, daemon_set in reduced if daemon_set is not None for scope in _unusual_scopes(live)]
    config_maps = await readable("ConfigMaps of proxies", _read_config_maps(transport, daemon_sets))
    pods = await readable("Pods of proxies", _read_pods(transport, scopes))
    unread = tuple(f"{' and '.join(kinds)} cannot be read ({why})" for why, kinds in lost.items())
    return ProxyObjects(daemon_sets, config_maps, pods, unread)


def _unusual_scopes(daemon_set: DaemonSet) -> Iterator[ListScope]:
    """The Pods of a DaemonSet with unusual labels, or in an unusual namespace."""
    namespace, selector = daemon_set.metadata.namespace, daemon_set.spec.selector
    labels = (selector.match_labels if selector is not None else None) or {}
    is_usual = any(labels.get(key) in values for key, values in POD_LABELS.items())
    if labels and not (is_usual and namespace == SYSTEM_NAMESPACE):
        label_selector = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
        yield ListScope(namespace=namespace, label_selector=label_selector)


async def _read_config_maps(transport: ReadTransport, daemon_sets: Sequence[DaemonSet]) -> tuple[ConfigMap, ...]:
    programs = [(set_.metadata.namespace, find_program(set_.spec.template.spec.containers)) for set_ in daemon_sets]
    cilium = {namespace for namespace, proxy in programs if proxy is not None and proxy.program == "cilium"}
    keys = [(SYSTEM_NAMESPACE, name) for name in KUBE_PROXY_CONFIGS]
    keys += [(namespace, CILIUM_CONFIG) for namespace in sorted(cilium)]
    config_maps = await all_results(_read_config_map(transport, *key) for key in keys)
    return (*(map_ for map_ in config_maps if map_ is not None), *await _read_overlays(transport))


async def _read_overlays(transport: ReadTransport) -> Sequence[ConfigMap]:
    """The ConfigMaps of an overlay; none if they cannot be read: no command notices the overlay then."""
    scope = ListScope(field_selector=f"metadata.name={OVERLAY_CONFIG_MAP}")
    try:
        config_maps = await list_all(transport, CONFIG_MAPS, scope, on_unreadable=lambda _unreadable: None)
    except CallFailed:
        return ()
    return [
        ConfigMap(metadata=PlainMeta(name=map_.metadata.name, namespace=map_.metadata.namespace), data=map_.data)
        for map_ in config_maps
    ]


async def _read_config_map(transport: ReadTransport, namespace: str, name: str) -> ConfigMap | None:
    try:
        data = await transport.get(CONFIG_MAPS.path(namespace=namespace, name=name), timeout=_TIME_LIMIT)
        return reduce_config_map(msgspec.json.decode(data, type=ConfigMap))
    except (NotFound, *DECODE_ERRORS):
        return None


async def _read_pods(transport: ReadTransport, scopes: Iterable[ListScope]) -> tuple[ProxyPod, ...]:
    pods: dict[ObjectKey, ProxyPod] = {}
    for scope in scopes:
        for pod in await list_all(transport, PROXY_PODS, scope, on_unreadable=lambda _unreadable: None):
            reduced = reduce_pod(pod)
            if reduced is not None:
                pods[object_key_of(pod)] = reduced
    return tuple(pods.values())


# --- workloads and Leases ---------------------------------------------------------------------------------------------


async def list_controller_leases(transport: ReadTransport, *, name: str) -> tuple[Lease, ...]:
    """The Leases of the controller's leader election: all with this name, in any namespace, without those that cannot
    be decoded. Raises CallFailed."""
    scope = ListScope(field_selector=f"metadata.name={name}")
    leases = await list_all(transport, WORKLOAD_LEASES, scope, on_unreadable=lambda _unreadable: None)
    return tuple(normalized(lease) for lease in leases)


async def list_workload_objects(
    transport: ReadTransport, *, namespaces: Sequence[str] | None, lease_name: str, now: datetime
) -> tuple[tuple[WorkloadObject, ...], dict[str, str]]:
    """The objects in ``namespaces`` (None: in all) that can be read, and by kind the reason why others cannot.

    Leases are those with the name ``lease_name`` in any namespace; a holder whose Lease has expired at ``now`` is
    removed.
    """
    unread: dict[str, str] = {}

    async def listed(resource: WatchedResource[Any]) -> tuple[WorkloadObject, ...]:
        scopes = [ListScope(namespace=namespace) for namespace in namespaces or ()] if resource.namespaced else []
        objects: list[WorkloadObject] = []
        try:
            if resource is WORKLOAD_LEASES:
                leases = await list_controller_leases(transport, name=lease_name)
                return tuple(without_expired_holder(lease, now=now) for lease in leases)
            for scope in scopes or (ListScope(),):
                # Objects that cannot be decoded are skipped.
                in_scope = await list_all(transport, resource, scope, on_unreadable=lambda _unreadable: None)
                objects += map(normalized, in_scope)
        except CallFailed as error:
            # A server without this kind has no such objects.
            if not isinstance(error, NotFound):
                unread[resource.kind] = "no permission" if isinstance(error, Forbidden) else error.message
            return ()
        return tuple(objects)

    lists = await all_results(map(listed, WORKLOADS))
    return tuple(object_ for objects in lists for object_ in objects), unread
