"""The write permissions of the controller, and a check for them before it starts to write."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from zoneward.client.all_results import all_results
from zoneward.client.api_errors import ApiError, Forbidden, NotFound
from zoneward.client.resources import ENDPOINTS, EVENTS, SERVICES, SLICES, ApiResource
from zoneward.client.transport_interface import WriteTransport
from zoneward.controller.mode import Mode
from zoneward.kube.json_documents import DECODE_ERRORS, decode_json

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
