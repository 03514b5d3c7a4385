import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoneward.kube.json_documents import MAX_DEPTH, simplify_json

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=20,
)


def nested(levels: int, inside: str = "1") -> str:
    return '{"f:a":[' * (levels // 2) + inside + "]}" * (levels // 2)


@given(JSON)
def test_valid_json_is_unchanged(value: Any) -> None:
    data = json.dumps(value, ensure_ascii=False).encode()
    assert simplify_json(data) == data


@pytest.mark.parametrize("levels", [MAX_DEPTH, MAX_DEPTH + 2, 1_200, 9_998])
def test_too_deep_values_are_emptied_and_offsets_kept(levels: int) -> None:
    data = f'{{"deep":{nested(levels)},"name":"cart \\"]}}","list":[1]}}'.encode()
    simple = simplify_json(data)
    assert len(simple) == len(data)
    assert simple.index(b"cart") == data.index(b"cart")
    value = msgspec.json.decode(simple)
    assert value["name"] == 'cart "]}'
    assert value["list"] == [1]


def test_brackets_in_strings_do_not_count_as_levels() -> None:
    data = msgspec.json.encode({"a": "[{" * 5_000, 'b"]': ["\\", '\\"{']})
    assert simplify_json(data) == data


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (rb'"\ud800"', "�"),
        (rb'"\udc00x"', "�x"),
        (rb'"\uD83D\uDE00"', "\U0001f600"),
        (rb'"\ud83d\ud83d\ude00"', "�\U0001f600"),
        (rb'"\\ud800"', "\\ud800"),
        (rb'"\\\ud800"', "\\�"),
        (rb'"\ud800\n"', "�\n"),
    ],
)
def test_lone_surrogate_is_replaced_as_in_go(text: bytes, expected: str) -> None:
    assert msgspec.json.decode(simplify_json(text)) == expected


@pytest.mark.parametrize("data", [b"", b'{"a', b"]]]]", b'"' + b"[" * 2_000_000, b'\\"{' * 500_000])
def test_simplifying_invalid_json_takes_linear_time(data: bytes) -> None:
    # Anything but linear would take hours.
    assert simplify_json(data) == data
