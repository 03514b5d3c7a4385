"""Whether an API server can set the hints of an overlay: the kind of policy that it needs, and the policy itself."""

from typing import Final

import msgspec

from zoneward.client.api_errors import CallFailed, NotFound
from zoneward.client.transport_interface import ReadTransport
from zoneward.kube.input_error import InputError
from zoneward.kube.json_documents import DECODE_ERRORS, decode_json
from zoneward.kube.overlay_objects import API, OVERLAY

_GROUP: Final = f"/apis/{API}"
_POLICIES: Final = "mutatingadmissionpolicies"


class _Resource(msgspec.Struct, frozen=True, gc=False):
    name: str = ""


class _ResourceList(msgspec.Struct, frozen=True, gc=False):
    resources: tuple[_Resource, ...] = ()


async def require_admission_policies(connection: ReadTransport, *, server: str) -> None:
    """Raises InputError where the API server has no MutatingAdmissionPolicy. A server that does not say is trusted."""
    try:
        kinds = decode_json(await connection.get(_GROUP), _ResourceList)
    except (CallFailed, *DECODE_ERRORS):
        return
    if not any(resource.name == _POLICIES for resource in kinds.resources):
        raise InputError(
            server,
            "expected Kubernetes 1.36 or newer for --overlay, whose API server has MutatingAdmissionPolicy;"
            " use --only-marked and `zoneward adopt` instead",
        )


async def has_policy(connection: ReadTransport) -> bool:
    """Whether the policy is installed; True where that cannot be read."""
    try:
        await connection.get(f"{_GROUP}/{_POLICIES}/{OVERLAY}")
    except NotFound:
        return False
    except CallFailed:
        return True
    return True
