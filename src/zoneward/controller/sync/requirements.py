"""What the controller needs of an API server: write permissions, and in an overlay an admission policy. Both are
checked before it starts to write."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from zoneward.client.api_errors import ApiError, CallFailed, Forbidden, NotFound
from zoneward.client.resources import ENDPOINTS, EVENTS, SERVICES, SLICES, ApiResource
from zoneward.client.transport_interface import ReadTransport, WriteTransport, all_results
from zoneward.controller.controller_configuration import Mode
from zoneward.kube.input_error import InputError
from zoneward.kube.json_documents import DECODE_ERRORS, decode_json
from zoneward.kube.overlay_objects import API, OVERLAY

Permission = tuple[str, ApiResource[Any]] | tuple[str, ApiResource[Any], str]
"""An HTTP method, the kind that it is for, and maybe a subresource (``status``)."""
_REPORTING: Final[tuple[Permission, ...]] = (
    *((method, EVENTS) for method in ("POST", "PATCH")),
    ("PATCH", SERVICES, "status"),
)
REQUIRED_PERMISSIONS: Final[tuple[Permission, ...]] = (
    *((method, SLICES) for method in ("POST", "PUT", "DELETE")),
    *_REPORTING,
)
"""Every controller that writes slices needs these. The leader election reports a missing permission for the Lease."""
ADOPTION_PERMISSIONS: Final[tuple[Permission, ...]] = (
    ("PATCH", SERVICES),
    *((method, ENDPOINTS) for method in ("POST", "PUT", "DELETE")),
)
"""What it needs in addition for adopted Services."""
PERMISSIONS: Final[Mapping[Mode, tuple[Permission, ...]]] = {
    Mode.TAKE_OVER: REQUIRED_PERMISSIONS,
    Mode.ONLY_MARKED: REQUIRED_PERMISSIONS + ADOPTION_PERMISSIONS,
    # Those for its ConfigMaps are for one name, which a review without a name cannot show.
    Mode.OVERLAY: (("PATCH", SLICES), *_REPORTING),
}
"""The write permissions of each mode."""
_PATH: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class _ReviewStatus(msgspec.Struct, frozen=True, gc=False):
    allowed: bool = False


class _SubjectAccessReview(msgspec.Struct, frozen=True, gc=False):
    status: _ReviewStatus = _ReviewStatus()


async def check_permissions(connection: WriteTransport, permissions: Iterable[Permission], *, namespace: str) -> None:
    """Raises Forbidden for the first missing permission, as the server would; CallFailed if the check fails.

    If the server has no such API or denies it, the writes themselves will show.
    """
    wanted = tuple(permissions)
    answers = await all_results(_is_allowed(connection, permission, namespace) for permission in wanted)
    for (method, resource, *rest), is_granted in zip(wanted, answers, strict=True):
        if not is_granted:
            path = "/".join([resource.path(namespace=namespace, name=None if method == "POST" else "any"), *rest])
            raise Forbidden(403, "Forbidden", "", method=method, path=path)


async def _is_allowed(connection: WriteTransport, permission: Permission, namespace: str) -> bool:
    method, resource, *rest = permission
    attributes = {"namespace": namespace, "verb": _VERBS[method], "group": resource.group, "resource": resource.plural}
    if rest:
        attributes["subresource"] = rest[0]
    review = {
        "kind": "SelfSubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "spec": {"resourceAttributes": attributes},
    }
    try:
        body = await connection.send("POST", _PATH, msgspec.json.encode(review), idempotent=True)
        return decode_json(body, _SubjectAccessReview).status.allowed
    except (NotFound, Forbidden, *DECODE_ERRORS):
        return True
    except ApiError as error:
        if error.status == 405:
            return True
        raise


# --- the policy of an overlay -----------------------------------------------------------------------------------------

_POLICY_GROUP: Final = f"/apis/{API}"
_POLICIES: Final = "mutatingadmissionpolicies"


class _Resource(msgspec.Struct, frozen=True, gc=False):
    name: str = ""


class _ResourceList(msgspec.Struct, frozen=True, gc=False):
    resources: tuple[_Resource, ...] = ()


async def require_admission_policies(connection: ReadTransport, *, server: str) -> None:
    """Raises InputError where the API server has no MutatingAdmissionPolicy. A server that does not say is trusted."""
    try:
        kinds = decode_json(await connection.get(_POLICY_GROUP), _ResourceList)
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
        await connection.get(f"{_POLICY_GROUP}/{_POLICIES}/{OVERLAY}")
    except NotFound:
        return False
    except CallFailed:
        return True
    return True
