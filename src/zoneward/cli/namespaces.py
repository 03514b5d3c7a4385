"""Namespaces that nobody knows: a typing error in one must not look like a cluster without Services."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, Final

from zoneward.cli.options import Options
from zoneward.kube.input_error import InputError
from zoneward.kube.near_names import did_you_mean
from zoneward.kube.objects import EndpointSlice, Pod, Service
from zoneward.routing.phrases import listed
from zoneward.snapshots.cluster_snapshot import Snapshot

if TYPE_CHECKING:
    from zoneward.client.auth.client_config import ClientConfig
    from zoneward.client.transport_interface import ReadTransport

_Namespaced = Service | Pod | EndpointSlice
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SHORT_TIME: Final = 5.0
"""Seconds for a question whose answer only makes a message better."""


def check_namespace_name(name: str) -> None:
    """Raises InputError for what cannot be a namespace of a cluster."""
    if _NAME.fullmatch(name) is None:
        raise InputError("-n", f"expected the name of a namespace, got {name!r}")


def namespaces_without_objects(options: Options, objects: Iterable[_Namespaced]) -> list[str]:
    """Namespaces that ``-n`` and the given Services name, and that no object is in."""
    named = (name.rpartition("/")[0] for name in options.services if "/" in name)
    empty = dict.fromkeys((*options.namespaces, *named))
    if empty:
        for namespaced in objects:
            empty.pop(namespaced.metadata.namespace, None)
    return list(empty)


def check_snapshot_namespaces(options: Options, snapshot: Snapshot) -> None:
    """Raises InputError for a namespace of ``-n`` that no object of the files is in."""
    known = (
        {namespaced.metadata.namespace for namespaced in namespaced_objects(snapshot)} if options.namespaces else set()
    )
    for name in options.namespaces:
        if name not in known:
            names = listed(tuple(sorted(known))) or "there are none"
            expected = f"expected one of the {len(known)} namespaces in the snapshot ({names}), got {name!r}"
            raise InputError("-n", expected + did_you_mean(name, known))


def check_cluster_namespaces(options: Options, snapshot: Snapshot, access: "ClientConfig") -> None:
    """Raises InputError for a named namespace that the server does not know. It asks about those without objects."""
    empty = namespaces_without_objects(options, namespaced_objects(snapshot))
    if not empty:
        return
    import asyncio

    from zoneward.client.api_errors import CallFailed
    from zoneward.client.error_messages import to_input_error
    from zoneward.client.transport import Transport

    async def check() -> None:
        async with Transport(access) as transport:
            await refuse_unknown_namespaces(transport, empty)

    try:
        asyncio.run(check())
    except CallFailed as error:
        raise to_input_error(error, access, now=datetime.now(UTC)) from error


async def refuse_unknown_namespaces(transport: "ReadTransport", empty: Iterable[str]) -> None:
    """Raises InputError for a namespace without objects that the server does not know, or CallFailed.

    Where we may not ask the server, a namespace without objects counts as unknown: nothing could be shown of it.
    """
    from zoneward.client.api_errors import Forbidden, NotFound
    from zoneward.client.resources import NAMESPACES

    for name in empty:
        try:
            await transport.get(NAMESPACES.path(name=name))
        except NotFound:
            near = did_you_mean(name, await _known_to_server(transport))
            raise InputError("-n", f"the cluster has no namespace {name!r}{near}") from None
        except Forbidden:
            near = did_you_mean(name, await _known_to_server(transport))
            missing = f"there is nothing in namespace {name!r}, and without permission to get namespaces"
            raise InputError("-n", f"{missing} it is not known whether it exists{near}") from None


async def _known_to_server(transport: "ReadTransport") -> list[str]:
    """The names of all namespaces; none where the server does not list them."""
    from zoneward.client.api_errors import CallFailed
    from zoneward.client.resource_names import list_names
    from zoneward.client.resources import NAMESPACES

    try:
        return [name for _, name in await list_names(transport, NAMESPACES, time_limit=_SHORT_TIME)]
    except CallFailed:
        return []


def namespaced_objects(snapshot: Snapshot) -> Iterable[_Namespaced]:
    """All objects that have a namespace."""
    return chain(snapshot.services, snapshot.pods, snapshot.slices)
