"""The table of Namespaces says whether each is there to stay."""

from datetime import UTC, datetime

from zoneward.sandbox.server.columns.namespaces import COLUMNS, cells

NOW = datetime(2026, 11, 21, 17, 54, 42, tzinfo=UTC)
METADATA = {"name": "n", "creationTimestamp": "2026-11-21T17:47:17Z"}


def test_a_namespace_has_a_phase() -> None:
    assert [column.name for column in COLUMNS] == ["Name", "Status", "Age"]
    assert cells({"metadata": METADATA, "status": {"phase": "Active"}}, NOW) == ["n", "Active", "7m25s"]


def test_a_bookmark_has_a_row_too() -> None:
    assert cells({"metadata": {"resourceVersion": "7"}}, NOW) == ["", "", "<unknown>"]
