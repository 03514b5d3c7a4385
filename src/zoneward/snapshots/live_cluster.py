"""A running cluster as a snapshot. Only lists are asked for: nothing is ever written."""

import asyncio
from datetime import UTC, datetime

from zoneward.client.api_errors import CallFailed
from zoneward.client.auth.client_config import Access
from zoneward.client.error_messages import complaint
from zoneward.client.list_pager import list_kinds
from zoneward.client.list_watch_decoder import Unreadable, left_out
from zoneward.client.resources import RESOURCES
from zoneward.client.transport import Transport
from zoneward.snapshots.cluster_snapshot import Snapshot


def read_cluster(access: Access, *, namespace: str | None) -> Snapshot:
    """Every Node, and the Services, Pods and EndpointSlices of one namespace or of all. Raises InputError.

    Each kind is as of one moment, but not of the same one. An object that cannot be read is left out with a warning:
    one tenant's must not keep everybody from an answer.
    """
    try:
        return asyncio.run(_read(access, namespace))
    except CallFailed as error:
        raise complaint(error, access, now=datetime.now(UTC)) from error


async def _read(access: Access, namespace: str | None) -> Snapshot:
    async with Transport(access) as transport:
        unreadable: list[Unreadable] = []
        objects = await list_kinds(transport, RESOURCES, namespace=namespace, on_unreadable=unreadable.append)
        return Snapshot.of(objects, lists_pods=True, warnings=map(left_out, unreadable))
