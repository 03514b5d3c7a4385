"""Lists workloads, autoscalers, volumes and the controller's Leases. No decision needs them: without permission, some
checks are skipped."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from zoneward.client.all_results import all_results
from zoneward.client.api_errors import CallFailed, Forbidden, NotFound
from zoneward.client.list_pager import ListScope, list_all
from zoneward.client.resources import WORKLOAD_LEASES, WORKLOADS, WatchedResource
from zoneward.client.transport_interface import ReadTransport
from zoneward.kube.controller_lease import without_expired_holder
from zoneward.kube.workload_objects import Lease, WorkloadObject, normalized


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
