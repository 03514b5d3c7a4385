"""The annotation ``zoneward.dev/zone-weights`` of an EndpointSlice: shares of traffic between zones, and the counts of
endpoints for which they were computed.

``{"counts":{"a":4,"b":2},"shares":{"a":{"a":1.0},"b":{"a":0.25,"b":0.75}}}``

Any client may write an annotation: `parse_zone_weights` limits its length and checks all of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec

from zoneward.kube.formats import label_value_problems
from zoneward.kube.json_documents import DECODE_ERRORS

MAX_ZONES: Final = 32
"""Zones of one annotation."""
_DIGITS: Final = 4
"""Decimals of a share."""
_ROUNDING: Final = 0.002
"""Tolerance for the sum of the shares of a zone: a little more than `MAX_ZONES` roundings."""
_MAX_LENGTH: Final = (MAX_ZONES + 1) * (MAX_ZONES + 1) * 80
"""Characters: a name of 63 and a share, in each row and in the counts."""
_MAX_COUNT: Final = 10_000_000

_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=_MAX_COUNT)]


@dataclass(frozen=True, slots=True)
class ZoneWeights:
    """``shares``: by the zone where traffic starts, the share for the endpoints located in each zone. The shares of a
    zone sum to 1, and zones without a share are missing. ``counts``: the ready endpoints by zone for which the shares
    were computed.
    """

    shares: Mapping[str, Mapping[str, float]]
    counts: Mapping[str, int]


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    counts: dict[str, _Count]
    shares: dict[str, dict[str, _Share]]


_DECODER: Final = msgspec.json.Decoder(_Document)


def format_zone_weights(weights: ZoneWeights | None) -> str | None:
    """The value of the annotation; None without weights, and for weights that no reader would accept."""
    if weights is None:
        return None
    document = {"counts": dict(weights.counts), "shares": _rounded(weights.shares)}
    text = msgspec.json.encode(document, order="sorted").decode()
    return text if parse_zone_weights(text) is not None else None


def parse_zone_weights(text: str) -> ZoneWeights | None:
    """The weights in an annotation, without shares that round to 0; None if it is invalid."""
    if len(text) > _MAX_LENGTH:
        return None
    try:
        document = _DECODER.decode(text)
    except (*DECODE_ERRORS, UnicodeError):
        return None
    rows = document.shares.values()
    zones = {*document.counts, *document.shares}.union(*rows) if len(document.shares) <= MAX_ZONES else set()
    if not 0 < len(zones) <= MAX_ZONES or not all(map(_is_zone, zones)):
        return None
    # Names of zones have no colon, so that more colons than keys mean a duplicate key.
    if text.count(":") != 2 + len(document.counts) + len(document.shares) + sum(map(len, rows)):
        return None
    if any(abs(sum(row.values()) - 1) > _ROUNDING for row in rows):
        return None
    return ZoneWeights(_rounded(document.shares), document.counts)


def _rounded(shares: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    return {
        start: {end: rounded for end, share in row.items() if (rounded := round(share, _DIGITS))}
        for start, row in shares.items()
    }


def _is_zone(name: str) -> bool:
    return bool(name) and not any(label_value_problems(name))
