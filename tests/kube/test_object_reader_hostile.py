"""Reading any file ends soon, with objects or with an error of one line."""

import gzip
import json
from collections import Counter
from io import BytesIO
from typing import Any, Final

from hypothesis import example, given, settings
from hypothesis import strategies as st

from zoneward.kube.input_error import MAX_LENGTH, InputError
from zoneward.kube.object_reader import read_objects
from zoneward.kube.objects import KINDS
from zoneward.snapshots.cluster_snapshot import Snapshot
from zoneward.snapshots.snapshot_writer import write_snapshot

MANY: Final = settings(max_examples=60)
TAGS: Final = ("", "!!int ", "!!float ", "!!bool ", "!!null ", "!!timestamp ", "!!binary ", "!!set ", "!!omap ", "!x ")
SCALARS: Final = st.one_of(
    st.sampled_from(
        ("~", "''", '""', "-", "+", ".", "0x", "0b", ".nan", "-.inf", "1:59:59", "2001-99-99", "=", "<<", "y", "no")
    ),
    st.integers(min_value=-(10**80), max_value=10**80).map(str),
    st.sampled_from(("9" * 10_000, "0x" + "f" * 10_000, "1e" + "9" * 1_000, '"\\ud800"', '"\\0\\e[2J"', '"\\xff"')),
    st.text("ab:#&*!|>'\"%@`{}[],?- \t", max_size=6),
)
KEYS: Final = st.sampled_from(
    ("metadata", "name", "labels", "annotations", "spec", "ports", "port", "selector", "status", "zone", "items",
     "endpoints", "addresses", "hints", "forZones", "kind", "apiVersion", "generation", "allocatable", "cpu", "<<")
)  # fmt: skip


def flow(children: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Lists and mappings, with anchors, aliases, merges and tags."""
    anchor = st.sampled_from(("", "", "&a ", "&b "))
    inner = st.one_of(children, st.sampled_from(("*a", "*b")))
    pairs = st.lists(st.tuples(KEYS, inner).map(lambda pair: f"{pair[0]}: {pair[1]}"), max_size=5)
    lists = st.lists(inner, max_size=5).map(lambda items: f"[{', '.join(items)}]")
    mappings = pairs.map(lambda items: f"{{{', '.join(items)}}}")
    return st.tuples(anchor, st.sampled_from(TAGS), st.one_of(lists, mappings)).map("".join)


VALUES: Final = st.recursive(st.tuples(st.sampled_from(TAGS), SCALARS).map("".join), flow, max_leaves=12)
HEADS: Final = st.sampled_from([f"apiVersion: {version}\nkind: {kind}\n" for version, kind in KINDS])
FIELDS: Final = st.sampled_from(("metadata", "spec", "status", "endpoints", "ports", "addressType", "items", "other"))
DOCUMENTS: Final = st.tuples(HEADS, st.lists(st.tuples(FIELDS, VALUES), max_size=4)).map(
    lambda parts: parts[0] + "".join(f"{name}: {value}\n" for name, value in parts[1])
)


def outcome(data: bytes) -> Snapshot | None:
    try:
        return Snapshot.of(read_objects("a", data, skipped=Counter()))
    except InputError as error:
        line = str(error)
    assert line.isprintable()
    assert len(line) <= MAX_LENGTH
    return None


@given(st.lists(DOCUMENTS, min_size=1, max_size=3).map("---\n".join))
@MANY
def test_any_yaml_is_read_and_saved_again_or_refused_in_one_line(text: str) -> None:
    snapshot = outcome(text.encode())
    if snapshot is not None:
        write_snapshot(snapshot, BytesIO())


JSON: Final = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.sampled_from((10**40, -(10**400), 1e308)), st.text(max_size=4)
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=5)),
    max_leaves=15,
)


@given(st.sampled_from(sorted(KINDS)), st.dictionaries(FIELDS, JSON), st.sampled_from((b"", b"\xef\xbb\xbf", b"\n")))
@example(("v1", "Service"), {"metadata": {"name": "a", "generation": 10**30}}, b"")
@MANY
def test_any_json_is_read_and_saved_again_or_refused_in_one_line(
    kind: tuple[str, str], fields: dict[str, Any], before: bytes
) -> None:
    document = {"apiVersion": kind[0], "kind": kind[1]} | fields
    snapshot = outcome(before + json.dumps(document).encode())
    if snapshot is not None:
        write_snapshot(snapshot, BytesIO())


@given(st.binary(max_size=200), st.integers(0, 120), st.sampled_from(("utf-8", "utf-16", "utf-32", "gzip")))
@MANY
def test_damaged_bytes_are_reported(junk: bytes, offset: int, form: str) -> None:
    text = '{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "\u00e9", "labels": {"a": "\U0001f600"}}}'
    whole = gzip.compress(text.encode(), mtime=0) if form == "gzip" else text.encode(form)
    outcome(whole[:offset] + junk + whole[offset:])
    outcome(whole[:offset] + junk)


@given(st.lists(st.tuples(KEYS, st.integers()), max_size=6), st.booleans())
@MANY
def test_every_duplicate_key_of_a_map_is_refused(pairs: list[tuple[str, int]], spaced: bool) -> None:
    inner = ",".join(f'"{key}":{" " * spaced}"{value}"' for key, value in pairs)
    document = f'{{"apiVersion":"v1","kind":"Service","metadata":{{"name":"a","labels":{{{inner}}}}}}}'
    is_twice = len({key for key, _ in pairs}) < len(pairs)
    assert (outcome(document.encode()) is None) is is_twice
    to_yaml = "".join(f"    {key}: '{value}'\n" for key, value in pairs if key != "<<")
    is_twice = len({key for key, _ in pairs} - {"<<"}) < sum(key != "<<" for key, _ in pairs)
    head = "apiVersion: v1\nkind: Service\nmetadata:\n  name: a\n  labels:\n"
    assert (outcome(f"{head}{to_yaml}".encode()) is None) is is_twice


@given(
    st.lists(st.sampled_from(["apiVersion", "kind", "items", "metadata", "a:b"]), max_size=3),
    st.integers(0, 3),
    st.sampled_from([0, 5_000]),
    st.booleans(),
)
@MANY
def test_every_duplicate_field_of_a_list_is_refused(more: list[str], services: int, length: int, spaced: bool) -> None:
    service = '{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"}}'
    values = {"apiVersion": '"v1"', "kind": '"List"', "items": f"[{','.join([service] * services)}]"}
    fields = ["apiVersion", "items", "kind", *more]
    space = " " * spaced
    pairs = (f'"{name}":{space}{values.get(name) or json.dumps({"a": ":" * length})}' for name in fields)
    is_twice = len(set(fields)) < len(fields)
    assert (outcome(f"{{{','.join(pairs)}}}".encode()) is None) is is_twice
