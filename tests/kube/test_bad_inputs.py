"""Bad input is refused with one line that points to it."""

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kube.bad_inputs import BAD_INPUTS, GOOD
from tests.kube.documents import DOCUMENTS, FORMS, Document

from zoneward.kube import object_reader
from zoneward.kube.input_error import InputError
from zoneward.kube.object_reader import read_objects


@pytest.mark.parametrize(("data", "line"), BAD_INPUTS, ids=[line for _, line in BAD_INPUTS])
def test_bad_input_is_told_in_one_exact_line_that_does_not_steer_a_terminal(data: bytes, line: str) -> None:
    assert told(data) == f"a: {line}"
    long = told(data, source=f"/very/long{'/path' * 200}/\x1b[2J\n\udcff.yaml")
    assert len(long) <= 300
    assert long.isprintable()
    assert long.endswith(line[-20:])
    assert ".yaml: " in long


@pytest.mark.parametrize("size", [100, 100_000])
def test_names_and_values_of_any_length_leave_the_line_short_and_pointing(size: int) -> None:
    name, value, key = "n" * size, "v" * size, "k" * size
    line = told(GOOD.replace(b'"cart"', f'"{name}","labels":{{"{key}":7}},"uid":"{value}"'.encode()))
    assert line.startswith("a: document 1: Service shop/n")
    assert line.endswith("expected a string, got 7 without quotes")
    assert len(line) <= 300


def test_what_stands_before_the_mistake_has_been_read() -> None:
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
def test_whatever_is_done_to_good_input_it_is_read_or_refused_in_one_line(
    form: str, documents: Sequence[Document], at: float, removed: int, added: bytes
) -> None:
    data = FORMS[form](documents)
    place = round(at * len(data))
    data = data[:place] + added + data[place + removed :]
    line = told(data)
    assert len(line) <= 300
    assert line.isprintable()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(object_reader, "_LARGE", 0)
        assert told(data) == line, "as a large file"


@given(st.binary())
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for text in (data, b"{" + data, b"a: " + data):
        told(text)


def told(data: bytes, source: str = "a") -> str:
    """What an error says; nothing where there is none."""
    try:
        list(read_objects(source, data, skipped=Counter()))
    except InputError as error:
        return str(error)
    return ""
