"""Values that are JSON documents as they are: fields in camel case, figures with six digits."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from zoneward.kube.safe_text import escape_json


class JsonValue(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A value that is a part of a JSON document."""


def round_share(share: float) -> float:
    """Six digits are more than a prediction is worth, and hide the noise of doubles. ``+ 0.0`` turns -0.0 into 0.0."""
    return round(share, 6) + 0.0


def round_if_any(share: float | None) -> float | None:
    return None if share is None else round_share(share)


def round_percents(*shares: float | None) -> tuple[float | None, ...]:
    """As precise as tables show them: what they show as equal changes nothing."""
    return tuple(None if share is None else round(share, 2) for share in shares)


def round_part(share: float) -> float:
    """The same for a share that is exactly 0 or 1 only where it is nothing or all."""
    return share if share in (0, 1) else min(max(round_share(share), 1e-6), 1 - 1e-6)


def round_shares(shares: Mapping[str, float]) -> dict[str, float]:
    return {name: round_share(share) for name, share in shares.items()}


API_VERSION: Final = "zoneward.dev/v1alpha1"
"""Of the documents that commands print. Later versions may add fields."""


def as_document(kind: str, fields: Any) -> dict[str, Any]:
    """A value, or a mapping, with ``apiVersion`` and ``kind`` first."""
    return {"apiVersion": API_VERSION, "kind": kind, **msgspec.to_builtins(fields)}


def to_json(document: Any) -> bytes:
    """JSON with two spaces of indentation and a newline at its end, in which nothing controls a terminal."""
    return escape_json(msgspec.json.format(msgspec.json.encode(document), indent=2)) + b"\n"
