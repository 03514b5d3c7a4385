"""Weights of zones as the text of an annotation and back; anybody may write such a text."""

import json
from itertools import product
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.random_clusters import examples

from zoneward.kube.zone_weights import MAX_ZONES, ZoneWeights, format_zone_weights, parse_zone_weights

WEIGHTS: Final = ZoneWeights({"a": {"a": 1.0}, "b": {"a": 0.25, "b": 0.75}}, {"a": 4, "b": 2})
TEXT: Final = '{"counts":{"a":4,"b":2},"shares":{"a":{"a":1.0},"b":{"a":0.25,"b":0.75}}}'
NAMES: Final = st.from_regex(r"[a-z0-9A-Z]([-_.a-z0-9A-Z]{0,61}[a-z0-9A-Z])?", fullmatch=True)


@st.composite
def weights(draw: st.DrawFn) -> ZoneWeights:
    zones = sorted(draw(st.sets(NAMES, min_size=1, max_size=MAX_ZONES)))
    shares = {}
    for start in zones:
        parts = draw(st.lists(st.integers(0, 9), min_size=len(zones), max_size=len(zones)).filter(any))
        shares[start] = {end: part / sum(parts) for end, part in zip(zones, parts, strict=True) if part}
    return ZoneWeights(shares, {zone: draw(st.integers(0, 10_000)) for zone in zones})


def test_the_text_is_json_in_order_of_names_with_shares_and_counts() -> None:
    assert format_zone_weights(WEIGHTS) == TEXT
    assert format_zone_weights(ZoneWeights({"b": {"b": 0.75, "a": 0.25}, "a": {"a": 1.0}}, {"b": 2, "a": 4})) == TEXT
    assert format_zone_weights(None) is None


@examples(50)
@given(weights())
def test_weights_round_trip_with_four_decimals(given_: ZoneWeights) -> None:
    text = format_zone_weights(given_)
    assert text is not None
    back = parse_zone_weights(text)
    assert back is not None
    assert back.counts == given_.counts
    for start, end in product(given_.shares, given_.counts):
        assert back.shares[start].get(end, 0) == pytest.approx(given_.shares[start].get(end, 0), abs=0.000051)
    assert format_zone_weights(back) == text


def test_the_most_zones_with_the_longest_names_round_trip() -> None:
    names = [f"{index:02}".rjust(63, "z") for index in range(MAX_ZONES + 1)]
    shares = {start: dict.fromkeys(names[:-1], 1 / MAX_ZONES) for start in names[:-1]}
    text = format_zone_weights(ZoneWeights(shares, dict.fromkeys(names[:-1], 10_000_000)))
    assert text is not None
    assert parse_zone_weights(text) is not None
    for counts in (dict.fromkeys(names, 1), dict.fromkeys(names[1:], 1)):
        assert format_zone_weights(ZoneWeights(shares, counts)) is None
    assert format_zone_weights(ZoneWeights({zone: {zone: 1} for zone in names}, {})) is None


def test_shares_that_round_to_zero_are_omitted() -> None:
    """A weight of nearly nothing would take a slot of the kernel all the same."""
    weights = parse_zone_weights('{"counts":{},"shares":{"a":{"a":1,"b":0,"c":0.00004,"d":1e-300}}}')
    assert weights == ZoneWeights({"a": {"a": 1.0}}, {})


def document(**changes: Any) -> str:
    return json.dumps(json.loads(TEXT) | changes)


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "null", "1", "[]", "{}", '""', "a=1", TEXT[:-1], f"{TEXT}x", f"{TEXT}{TEXT}", TEXT.upper()),
        *('{"counts":{},"shares":{}}', '{"counts":{"a":1}}', '{"shares":{"a":{"a":1}}}'),
        document(more=1),
        document(shares=None),
        document(shares=[]),
        document(shares={"a": {}}),
        document(shares={"a": {"a": 0}}),
        document(shares={"a": {"a": 0.9}}),
        document(shares={"a": {"a": 0.6, "b": 0.6}}),
        document(shares={"a": {"a": 2, "b": -1}}),
        document(shares={"a": {"a": "1"}}),
        document(shares={"a": {"a": True}}),
        document(shares={"a": {"a": None}}),
        document(shares={"a": {"a": {}}}),
        document(shares={"a": {"a": float("nan")}}),
        document(shares={"a": {"a": float("inf")}}),
        TEXT.replace("0.25", "1e999"),
        TEXT.replace("0.25", "9" * 5_000),
        document(counts={"a": -1}),
        document(counts={"a": 1.5}),
        document(counts={"a": "1"}),
        document(counts={"a": 10**7 + 1}),
        document(counts={"a": 10**30}),
        *(document(counts={name: 1}) for name in ("", "a b", "a,b", "-a", "ä", "a:b", "a\n", 'a"', "a" * 64)),
        *(document(shares={name: {"a": 1}}) for name in ("", "a b", "x" * 64)),
        *(document(shares={"a": {name: 1}}) for name in ("", "a b", "x" * 64)),
        # The same key twice, also in disguise.
        TEXT.replace('"b":2', '"a":4'),
        TEXT.replace('"b":2', '"b":2,"\\u0062":2'),
        TEXT.replace('"b":{', '"a":{'),
        TEXT.replace('"a":0.25', '"b":0.75'),
        TEXT.replace('"a":0.25', '"a":0.25,"a":0.25'),
        '{"counts":{"a":9},' + TEXT[1:],
        TEXT[:-1] + ',"shares":{"a":{"a":1.0}}}',
        # Half a character, and more levels than a parser takes.
        TEXT.replace('"b":2', '"\\ud800":2'),
        TEXT.replace('"b":2', '"\ud800":2'),
        "[" * 90_000,
        '{"counts":' * 8_000,
    ],
)
def test_any_other_text_is_refused(text: str) -> None:
    assert parse_zone_weights(text) is None


def test_too_long_text_is_not_parsed() -> None:
    assert parse_zone_weights(TEXT + " " * 1_000) == WEIGHTS
    assert parse_zone_weights(TEXT + " " * 200_000) is None


@examples(100)
@given(st.text(max_size=50), st.integers(0, len(TEXT)), st.integers(0, 9))
def test_any_change_of_a_text_is_read_or_refused(added: str, offset: int, gone: int) -> None:
    weights = parse_zone_weights(TEXT[:offset] + added + TEXT[offset + gone :])
    if weights is not None:
        assert all(abs(sum(row.values()) - 1) < 0.01 for row in weights.shares.values())
        assert format_zone_weights(weights) is not None
