"""Mirrors: a quick answer to whether an object has each key once."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pytest
from tests.synthetic_cluster import synthetic_cluster

from zoneward.kube.input_error import InputError
from zoneward.kube.mirrors import written_again
from zoneward.kube.object_reader import read_objects
from zoneward.kube.objects import KINDS
from zoneward.kube.struct_decoder import FieldTree, field_tree

_CLUSTER: Final = {each["kind"]: each for each in synthetic_cluster(seed=1, pods=3, nodes=3, services=1)}
_SLICE: Final = {
    "apiVersion": "discovery.k8s.io/v1",
    "kind": "EndpointSlice",
    "metadata": {"name": "a", "labels": {"kubernetes.io/service-name": "a"}, "managedFields": [{"manager": "b"}]},
    "addressType": "IPv4",
    "endpoints": [
        {
            "addresses": ["10.0.0.1"],
            "conditions": {"ready": True},
            "hints": {"forZones": [{"name": "a"}]},
            "targetRef": {"kind": "Pod", "name": "a", "resourceVersion": "1"},
        }
    ],
    "ports": [{"name": "a", "port": 80}],
}
_OBJECTS: Final = [_CLUSTER["Node"], _CLUSTER["Service"], _CLUSTER["Pod"], _SLICE]


def _twice(value: Any, shape: FieldTree | None, is_read: bool = True) -> Iterator[tuple[str, bool]]:
    """A value as text with one of its keys twice, for each of them, and whether that key is read."""
    if isinstance(value, list):
        for number, item in enumerate(value):
            for text, read in _twice(item, shape, is_read):
                yield f"[{','.join([*map(_text, value[:number]), text, *map(_text, value[number + 1 :])])}]", read
    elif isinstance(value, dict):
        for key, held in value.items():
            parts = [f'"{name}":{_text(each)}' for name, each in value.items()]
            read = is_read and (shape is None or key in shape)
            yield f'{{"{key}":{_text(held)},{",".join(parts)}}}', read
            others = [part for name, part in zip(value, parts, strict=True) if name != key]
            for text, inner in _twice(held, shape[key] if read and shape is not None else None, read):
                yield "{" + ",".join([*others, f'"{key}":{text}']) + "}", inner


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


@pytest.mark.parametrize("value", _OBJECTS, ids=[each["kind"] for each in _OBJECTS])
@pytest.mark.parametrize("spaced", [False, True])
def test_every_key_that_is_read_is_found_where_it_stands_twice_and_no_other(value: Any, spaced: bool) -> None:
    kind = KINDS[value["apiVersion"], value["kind"]]
    tried = list(_twice(value, field_tree(kind)))
    assert {read for _, read in tried} == {True, False}
    in_a_row = [(f'{{"apiVersion":"v1","kind":"List","items":[{_text(value)},{text}]}}', read) for text, read in tried]
    for text, read in (*tried, *in_a_row):
        try:
            list(read_objects("x", text.replace(",", ", \n" if spaced else ",").encode(), skipped=Counter()))
        except InputError:
            assert read, text
        else:
            # The head of an object is read before its kind is known.
            assert not read, text


@pytest.mark.parametrize("value", _OBJECTS, ids=[each["kind"] for each in _OBJECTS])
def test_a_mirror_knows_all_fields_that_an_api_server_writes(value: Any) -> None:
    text = _text(value).encode()
    again = written_again(msgspec.Raw(text), KINDS[value["apiVersion"], value["kind"]])
    assert again is not None
    assert len(again) == len(text)
