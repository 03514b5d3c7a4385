"""Tables and bare metadata look as a real server (1.36.3) answers them."""

from datetime import UTC, datetime
from typing import Any

import pytest
from zoneward.sandbox.server.columns import leases, namespaces, pods

from zoneward.sandbox.server.kinds import Kind, Rules
from zoneward.sandbox.server.status_errors import StatusError
from zoneward.sandbox.server.tables import inclusion, partial, partial_list, table, table_of_one

Object = dict[str, Any]

NOW = datetime(2026, 11, 21, 17, 51, 41, tzinfo=UTC)
NAMESPACE = Kind(
    kind="Namespace",
    plural="namespaces",
    rules=Rules(),
    is_namespaced=False,
    columns=namespaces.COLUMNS,
    cells=namespaces.cells,
)
POD = Kind(kind="Pod", plural="pods", rules=Rules(), columns=pods.COLUMNS, cells=pods.cells)
METADATA: Object = {"name": "default", "resourceVersion": "28", "creationTimestamp": "2026-11-21T17:47:17Z"}
DEFAULT: Object = {"kind": "Namespace", "apiVersion": "v1", "metadata": METADATA, "status": {"phase": "Active"}}
CELLS = ["default", "Active", "4m24s"]


def test_a_list_is_a_row_each() -> None:
    metadata = {"resourceVersion": "277", "continue": "more", "remainingItemCount": 36}
    told = table(NAMESPACE, [DEFAULT], metadata=metadata, now=NOW)
    definitions = told.pop("columnDefinitions")
    row = {
        "cells": CELLS,
        "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": METADATA},
    }
    assert told == {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "rows": [row]}
    assert definitions[1] == {
        "name": "Status",
        "type": "string",
        "format": "",
        "description": "The status of the namespace",
        "priority": 0,
    }
    assert [(each["name"], each["format"]) for each in definitions] == [("Name", "name"), ("Status", ""), ("Age", "")]


def test_nothing_is_no_rows_below_columns() -> None:
    told = table(NAMESPACE, [], metadata={"resourceVersion": "7"}, now=NOW)
    assert (told["rows"], len(told["columnDefinitions"])) == ([], 3)


def test_a_single_object_gives_its_version_to_the_table() -> None:
    assert table_of_one(NAMESPACE, DEFAULT, now=NOW)["metadata"] == {"resourceVersion": "28"}


def test_later_events_have_null_for_columns() -> None:
    assert table_of_one(NAMESPACE, DEFAULT, with_columns=False, now=NOW)["columnDefinitions"] is None


def test_a_bookmark_has_a_row_with_its_metadata() -> None:
    bookmark = {"metadata": {"resourceVersion": "280", "annotations": {"k8s.io/initial-events-end": "true"}}}
    told = table_of_one(NAMESPACE, bookmark, with_columns=False, now=NOW)
    assert told["metadata"] == {"resourceVersion": "280"}
    assert told["rows"] == [{"cells": ["", "", "<unknown>"], "object": partial(bookmark)}]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1beta1", "metadata": METADATA}),
        ("Metadata", {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1beta1", "metadata": METADATA}),
        ("Object", DEFAULT),
        ("None", None),
    ],
)
def test_a_row_brings_what_was_asked_for(text: str, expected: Object | None) -> None:
    told = table_of_one(NAMESPACE, DEFAULT, include=inclusion(text), now=NOW, version="v1beta1")
    assert told["apiVersion"] == "meta.k8s.io/v1beta1"
    assert told["rows"] == [{"cells": CELLS, "object": expected}]


def test_nothing_else_can_be_asked_for() -> None:
    with pytest.raises(StatusError) as refused:
        inclusion("bad")
    assert refused.value.code == 400
    assert refused.value.message == (
        "Unable to convert to Table as requested: "
        "includeObject: Invalid value: \"bad\": must be 'Metadata', 'Object', 'None', or empty"
    )


def test_rows_of_pods_that_have_ended_have_a_condition() -> None:
    things = [{"metadata": {"name": phase}, "status": {"phase": phase}} for phase in ("Running", "Succeeded", "Failed")]
    rows = table(POD, things, metadata={}, now=NOW)["rows"]
    assert ["conditions" in row for row in rows] == [False, True, True]
    assert rows[1]["conditions"] == pods.conditions(things[1])
    assert list(rows[1]) == ["cells", "conditions", "object"]


def test_other_kinds_have_no_conditions_in_rows() -> None:
    kind = Kind(kind="Lease", plural="leases", rules=Rules(), columns=leases.COLUMNS, cells=leases.cells)
    thing = {"metadata": {"name": "l"}, "status": {"phase": "Succeeded"}}
    assert "conditions" not in table_of_one(kind, thing, now=NOW)["rows"][0]


def test_metadata_alone_has_a_kind_and_version_of_its_own() -> None:
    expected = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": METADATA}
    assert partial(DEFAULT) == expected
    assert partial_list([DEFAULT], metadata={"resourceVersion": "7"}) == {
        "kind": "PartialObjectMetadataList",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": "7"},
        "items": [expected],
    }
