"""Lists workloads, autoscalers, volumes and the controller's Leases. No decision needs them: a missing permission costs
some checks."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from zoneward.client.all_results import all_results
from zoneward.client.api_errors import CallFailed, Forbidden, NotFound
from zoneward.client.controller_leases import list_controller_leases
from zoneward.client.list_pager import ListScope, list_all
from zoneward.client.resources import WORKLOAD_LEASES, WORKLOADS, WatchedResource
from zoneward.client.transport_interface import ReadTransport
from zoneward.kube.controller_lease import without_expired_holder
from zoneward.kube.workload_objects import WorkloadObject, normalized


async def list_workload_objects(
    transport: ReadTransport, *, namespaces: Sequence[str] | None, lease_name: str, now: datetime
) -> tuple[tuple[WorkloadObject, ...], dict[str, str]]:
    """All of them in some namespaces, or with None in all, that can be read; and by kind why others cannot.

    Leases are those of the name ``lease_name`` in any namespace, without a holder that has not renewed until ``now``.
    """
    unread: dict[str, str] = {}

    async def listed(resource: WatchedResource[Any]) -> tuple[WorkloadObject, ...]:
        scopes = [ListScope(namespace=namespace) for namespace in namespaces or ()] if resource.namespaced else []
        found: list[WorkloadObject] = []
        try:
            if resource is WORKLOAD_LEASES:
                leases = await list_controller_leases(transport, name=lease_name)
                return tuple(without_expired_holder(lease, now=now) for lease in leases)
            for scope in scopes or (ListScope(),):
                # What cannot be decoded says nothing.
                objects = await list_all(transport, resource, scope, on_unreadable=lambda _each: None)
                found += map(normalized, objects)
        except CallFailed as error:
            # A server that does not know the kind has none.
            if not isinstance(error, NotFound):
                unread[resource.kind] = "no permission" if isinstance(error, Forbidden) else error.message
            return ()
        return tuple(found)

    found = await all_results(map(listed, WORKLOADS))
    return tuple(object_ for objects in found for object_ in objects), unread
