"""Rights to write: which there are to be, and whether we have them, asked before the first of several writes."""

import asyncio
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from zoneward.client.api_errors import ApiError, Forbidden, NotFound
from zoneward.client.resources import ENDPOINTS, EVENTS, SERVICES, SLICES, Place
from zoneward.client.writer import Sender
from zoneward.kube.readable_json import FAILURES, decode

Permission = tuple[str, Place[Any]] | tuple[str, Place[Any], str]
"""An HTTP method, and the kind that it is for, or a subresource of it (``status``)."""
REQUIRED_PERMISSIONS: Final[tuple[Permission, ...]] = (
    *((method, SLICES) for method in ("POST", "PUT", "DELETE")),
    *((method, EVENTS) for method in ("POST", "PATCH")),
    ("PATCH", SERVICES, "status"),
)
"""To write, which a controller needs in any case; without the Lease, of which the election tells."""
ADOPTION_PERMISSIONS: Final[tuple[Permission, ...]] = (
    ("PATCH", SERVICES),
    *((method, ENDPOINTS) for method in ("POST", "PUT", "DELETE")),
)
"""And what it needs for Services that were adopted, where all that are its own are."""
_PATH: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class _ReviewStatus(msgspec.Struct, frozen=True, gc=False):
    allowed: bool = False


class _SubjectAccessReview(msgspec.Struct, frozen=True, gc=False):
    status: _ReviewStatus = _ReviewStatus()


async def check_permissions(connection: Sender, rights: Iterable[Permission], *, namespace: str) -> None:
    """Raises Forbidden for the first right that is missing, as the server would; CallFailed where it can't be asked.

    A server that cannot be asked, or does not let us, leaves it to the writes themselves.
    """
    found = tuple(rights)
    answers = await asyncio.gather(*(_is_allowed(connection, right, namespace) for right in found))
    for (method, place, *rest), is_granted in zip(found, answers, strict=True):
        if not is_granted:
            path = "/".join([place.path(namespace=namespace, name=None if method == "POST" else "any"), *rest])
            raise Forbidden(403, "Forbidden", "", method=method, path=path)


async def _is_allowed(connection: Sender, right: Permission, namespace: str) -> bool:
    method, place, *rest = right
    asked = {"namespace": namespace, "verb": _VERBS[method], "group": place.group, "resource": place.plural}
    if rest:
        asked["subresource"] = rest[0]
    review = {
        "kind": "SelfSubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "spec": {"resourceAttributes": asked},
    }
    try:
        body = await connection.send("POST", _PATH, msgspec.json.encode(review), idempotent=True)
        return decode(body, _SubjectAccessReview).status.allowed
    except (NotFound, Forbidden, *FAILURES):
        return True
    except ApiError as error:
        if error.status == 405:
            return True
        raise
