"""A running cluster as a snapshot. Only lists are asked for: nothing is ever written."""

import asyncio
from datetime import UTC, datetime

from zoneward.client.api_errors import CallFailed
from zoneward.client.auth.client_config import ClientConfig
from zoneward.client.error_messages import to_input_error
from zoneward.client.list_pager import ListOptions, list_resources
from zoneward.client.list_watch_decoder import UnreadableObject, skipped_message
from zoneward.client.resources import CACHED_RESOURCES
from zoneward.client.transport import Transport
from zoneward.snapshots.cluster_snapshot import Snapshot


def read_cluster(access: ClientConfig, *, namespace: str | None) -> Snapshot:
    """Every Node, and the Services, Pods and EndpointSlices of one namespace or of all. Raises InputError.

    Each kind is as of one moment, but not of the same one. An object that cannot be read is left out with a warning:
    one tenant's must not keep everybody from an answer.
    """
    try:
        return asyncio.run(_read(access, namespace))
    except CallFailed as error:
        raise to_input_error(error, access, now=datetime.now(UTC)) from error


async def _read(access: ClientConfig, namespace: str | None) -> Snapshot:
    async with Transport(access) as transport:
        unreadable: list[UnreadableObject] = []
        objects = await list_resources(
            transport, CACHED_RESOURCES, ListOptions(namespace=namespace), on_unreadable=unreadable.append
        )
        return Snapshot.of(objects, lists_pods=True, warnings=map(skipped_message, unreadable))
