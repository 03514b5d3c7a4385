"""Lists the Leases of the controller's leader election, in any namespace."""

from zoneward.client.list_pager import ListScope, list_all
from zoneward.client.resources import WORKLOAD_LEASES
from zoneward.client.transport_interface import ReadTransport
from zoneward.kube.workload_objects import Lease, normalized


async def list_controller_leases(transport: ReadTransport, *, name: str) -> tuple[Lease, ...]:
    """All Leases with this name, without those that cannot be decoded. Raises CallFailed."""
    scope = ListScope(field_selector=f"metadata.name={name}")
    leases = await list_all(transport, WORKLOAD_LEASES, scope, on_unreadable=lambda _unreadable: None)
    return tuple(normalized(lease) for lease in leases)
