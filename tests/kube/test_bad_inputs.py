"""Bad input is refused with one line that points to it."""

from collections import Counter
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kube.bad_inputs import BAD_INPUTS, GOOD
from tests.kube.documents import DOCUMENTS, FORMS, Document

from zoneward.kube.input_error import InputError
from zoneward.kube.object_reader import HAND_WRITTEN_BYTES, read_objects


@pytest.mark.parametrize(("data", "line"), BAD_INPUTS, ids=[line for _, line in BAD_INPUTS])
def test_bad_input_is_reported_in_one_printable_line(data: bytes, line: str) -> None:
    assert error_of(data) == f"a: {line}"
    long = error_of(data, source=f"/very/long{'/path' * 200}/\x1b[2J\n\udcff.yaml")
    assert len(long) <= 300
    assert long.isprintable()
    assert long.endswith(line[-20:])
    assert ".yaml: " in long


@pytest.mark.parametrize("size", [100, 100_000])
def test_long_names_and_values_are_shortened_in_errors(size: int) -> None:
    name, value, key = "n" * size, "v" * size, "k" * size
    line = error_of(GOOD.replace(b'"cart"', f'"{name}","labels":{{"{key}":7}},"uid":"{value}"'.encode()))
    assert line.startswith("a: document 1: Service shop/n")
    assert line.endswith("expected a string, got 7 without quotes")
    assert len(line) <= 300


def test_objects_before_an_error_are_read() -> None:
    reader = read_objects("a.json", GOOD + b"\n" + GOOD[:-1], skipped=Counter())
    assert next(reader).metadata.name == "cart"
    with pytest.raises(InputError):
        next(reader)


@settings(max_examples=30)
@given(
    form=st.sampled_from(sorted(FORMS)),
    documents=DOCUMENTS,
    at=st.floats(0, 1),
    removed=st.integers(0, 5),
    added=st.binary(max_size=3)
    | st.sampled_from([b"\n", b"\n- ", b": ", b"[", b"{", b'"', b"*a ", b"!b ", b"null", b"7"]),
)
def test_any_change_of_valid_input_is_read_or_refused_in_one_line(
    form: str, documents: Sequence[Document], at: float, removed: int, added: bytes
) -> None:
    data = FORMS[form](documents)
    offset = round(at * len(data))
    data = data[:offset] + added + data[offset + removed :]
    line = error_of(data)
    assert len(line) <= 300
    assert line.isprintable()


MACHINE_WRITTEN = {"padding": "x" * HAND_WRITTEN_BYTES}


@pytest.mark.parametrize("kind", ["List", "PodList"])
def test_large_list_is_read_and_reports_a_misfit_like_a_small_one(kind: str) -> None:
    def a_list(*names: object, **fields: object) -> bytes:
        items = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}} for name in names]
        return msgspec.json.encode({"apiVersion": "v1", "kind": kind, **fields, "items": items})

    large = a_list("a", "b", metadata=MACHINE_WRITTEN)
    assert list(read_objects("a", large, skipped=Counter())) == list(
        read_objects("a", a_list("a", "b"), skipped=Counter())
    )
    bad = a_list("a", 7, metadata=MACHINE_WRITTEN)
    assert error_of(bad) == error_of(a_list("a", 7))
    assert "items[1]: Pod without name: metadata.name: expected a string" in error_of(bad)
    assert error_of(bad[:-1]).endswith("malformed JSON: the document is cut short")
    # Two large documents are two documents.
    assert len(list(read_objects("a", large + b"\n" + large, skipped=Counter()))) == 4


def test_duplicate_keys_are_searched_up_to_the_size_that_a_person_may_write() -> None:
    doubled = GOOD.replace(b'"metadata"', b'"metadata":{"name":"x"},"metadata"')
    assert "metadata: expected each key once" in error_of(doubled)
    assert "kind: expected each key once" in error_of(GOOD.replace(b'"kind"', b'"kind":"Pod","kind"'))
    assert error_of(doubled + b" " * HAND_WRITTEN_BYTES) == ""


@given(st.binary())
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for text in (data, b"{" + data, b"a: " + data):
        error_of(text)


def error_of(data: bytes, source: str = "a") -> str:
    """What an error says; nothing where there is none."""
    try:
        list(read_objects(source, data, skipped=Counter()))
    except InputError as error:
        return str(error)
    return ""
