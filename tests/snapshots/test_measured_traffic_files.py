"""Documents of what a node counted, in every form in which they are gathered."""

import gzip
import json
from typing import Any

import pytest

from zoneward.kube.input_error import InputError
from zoneward.snapshots.measured_traffic_files import read_measured_traffic


def a_document(node: str, **changes: Any) -> dict[str, Any]:
    return {
        "apiVersion": "zoneward.dev/v1alpha1",
        "kind": "MeasuredTraffic",
        "node": node,
        "zone": "a",
        "since": "2026-03-01T10:00:00Z",
        "until": "2026-03-01T11:00:00Z",
        "services": [{"namespace": "shop", "service": "cart", "addressType": "IPv4", "zones": {"a": 3}}],
    } | changes


ONE, OTHER = a_document("n1"), a_document("n2", zone=None)
DEEP = '{"kind": "MeasuredTraffic", "x": ' + "[" * 100_000 + "]" * 100_000 + "}"
FORMS = {
    "one": json.dumps(ONE),
    "indented": json.dumps(ONE, indent=2),
    "lines": f"{json.dumps(ONE)}\n\n{json.dumps(OTHER)}\n",
    "list": json.dumps({"apiVersion": "v1", "kind": "List", "items": [ONE, OTHER]}, indent=2),
    "own-list": json.dumps({"kind": "MeasuredTrafficList", "items": [ONE, OTHER]}),
}


@pytest.mark.parametrize("form", FORMS)
def test_all_forms_are_read(form: str) -> None:
    for data in (FORMS[form].encode(), gzip.compress(FORMS[form].encode())):
        documents = list(read_measured_traffic("f", data))
        assert [document.node for document in documents] == ["n1", "n2"][: len(documents)]
        assert len(documents) == (1 if form in ("one", "indented") else 2)
        assert documents[0].services[0].zones == {"a": 3}


MISTAKES: dict[str, tuple[str | bytes, str]] = {
    "nothing": (" ", "f: expected a document of kind MeasuredTraffic, got nothing"),
    "no-json": ("{nonsense}", "f: expected a document of kind MeasuredTraffic, got JSON is malformed"),
    "kind": (json.dumps({"kind": "Service"}), "f: kind: expected MeasuredTraffic, got Service"),
    "version": (json.dumps(a_document("n1", apiVersion="v7")), "$.apiVersion"),
    "negative": (
        json.dumps(a_document("n1", services=[{**ONE["services"][0], "zones": {"a": -1}}])),
        "expected `int` >= 0 - at `$.services[0].zones[...]`",
    ),
    "time": (json.dumps(a_document("n1", since="yesterday")), "$.since"),
    "line": (f"{json.dumps(ONE)}\n{{}}", "f: line 2: kind: expected MeasuredTraffic, got none"),
    "item": (json.dumps({"kind": "List", "items": [ONE, 7]}), "f: items[1]: expected a document"),
    "text": (b"\xff\xfe\xfa", "f: "),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_invalid_play_is_one_line_with_the_field(mistake: str) -> None:
    text, expected = MISTAKES[mistake]
    with pytest.raises(InputError) as error:
        list(read_measured_traffic("f", text if isinstance(text, bytes) else text.encode()))
    assert expected.lower() in str(error.value).lower()
    assert "\n" not in str(error.value)


def test_the_name_of_json_keeps_its_letters() -> None:
    with pytest.raises(InputError, match="got JSON is malformed"):
        list(read_measured_traffic("f", b"{nonsense}"))


@pytest.mark.parametrize("text", [DEEP, f"{DEEP}\n{DEEP}"], ids=["one", "lines"])
def test_a_document_of_too_many_levels_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="expected a document of kind MeasuredTraffic, got maximum recursion depth"):
        list(read_measured_traffic("f", text.encode()))
