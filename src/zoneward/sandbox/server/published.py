"""The description of the API that the server publishes (OpenAPI v3): clients read it to check what they send, and to
explain fields. The files in ``openapi/`` are reduced from a real server's (``e2e/openapi.py``).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha512
from importlib.resources import files
from typing import Final

from zoneward.sandbox.server.kinds import Kind, Object

VERSION_2_TYPE: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""The content type of ``VERSION_2``. Clients accept it with an ``@`` for the dot before ``v1.0``."""
VERSION_2: Final = b"\x0a\x032.0\x12\x12\x0a\x0aKubernetes\x12\x041.36"
"""``/openapi/v2``, without any kind: kubectl asks for it, as protobuf alone, about kinds that version 3 does not have,
and gives up where it gets none at all.
"""


@dataclass(frozen=True, slots=True)
class Description:
    """Of one group and version."""

    body: bytes
    """A JSON document."""
    digest: str
    """Changes with the body: for the query parameter ``hash`` and, in quotes, the header ``ETag``."""


def root(kinds: Sequence[Kind]) -> Object:
    """``/openapi/v3``: where the descriptions are."""
    addresses = {}
    for path in dict.fromkeys(f"apis/{kind.api}" if kind.group else f"api/{kind.api}" for kind in kinds):
        if found := description(path):
            addresses[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={found.digest}"}
    return {"paths": addresses}


@cache
def description(path: str) -> Description | None:
    """``/openapi/v3/PATH``; ``path`` is ``api/v1`` or ``apis/GROUP/VERSION``. None where there is none.

    A request with another hash than the right one is to be sent (301) to the one with the right one.
    """
    match path.split("/"):
        case ["api", version]:
            name = f"api_{version}"
        case ["apis", group, version] if version.startswith("v"):
            name = f"{group}_{version}"
        case _:
            return None
    file = files("zoneward.sandbox.server") / "openapi" / f"{name}.json"
    if not file.is_file():
        return None
    body = file.read_bytes()
    return Description(body, sha512(body).hexdigest().upper())
