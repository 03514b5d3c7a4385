"""Rights to write: which there are to be, and whether we have them, asked before the first of several writes."""

import asyncio
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from zoneward.client.api_errors import ApiError, Forbidden, NotFound
from zoneward.client.resources import ENDPOINTS, EVENTS, SERVICES, SLICES, ApiResource
from zoneward.client.transport_interface import WriteTransport
from zoneward.kube.json_documents import DECODE_ERRORS, decode_json

Right = tuple[str, ApiResource[Any]] | tuple[str, ApiResource[Any], str]
"""An HTTP method, and the kind that it is for, or a subresource of it (``status``)."""
RIGHTS: Final[tuple[Right, ...]] = (
    *((method, SLICES) for method in ("POST", "PUT", "DELETE")),
    *((method, EVENTS) for method in ("POST", "PATCH")),
    ("PATCH", SERVICES, "status"),
)
"""To write, which a controller needs in any case; without the Lease, of which the election tells."""
RIGHTS_OF_MARKED: Final[tuple[Right, ...]] = (
    ("PATCH", SERVICES),
    *((method, ENDPOINTS) for method in ("POST", "PUT", "DELETE")),
)
"""And what it needs for Services that were adopted, where all that are its own are."""
_PATH: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class _Status(msgspec.Struct, frozen=True, gc=False):
    allowed: bool = False


class _Review(msgspec.Struct, frozen=True, gc=False):
    status: _Status = _Status()


async def check_rights(connection: WriteTransport, rights: Iterable[Right], *, namespace: str) -> None:
    """Raises Forbidden for the first right that is missing, as the server would; CallFailed where it can't be asked.

    A server that cannot be asked, or does not let us, leaves it to the writes themselves.
    """
    found = tuple(rights)
    answers = await asyncio.gather(*(_is_granted(connection, right, namespace) for right in found))
    for (method, place, *rest), is_granted in zip(found, answers, strict=True):
        if not is_granted:
            path = "/".join([place.path(namespace=namespace, name=None if method == "POST" else "any"), *rest])
            raise Forbidden(403, "Forbidden", "", method=method, path=path)


async def _is_granted(connection: WriteTransport, right: Right, namespace: str) -> bool:
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
        return decode_json(body, _Review).status.allowed
    except (NotFound, Forbidden, *DECODE_ERRORS):
        return True
    except ApiError as error:
        if error.status == 405:
            return True
        raise
