"""The table of Leases says who holds each."""

from datetime import UTC, datetime

from zoneward.sandbox.server.columns.leases import COLUMNS, cells

NOW = datetime(2026, 11, 21, 17, 54, 42, tzinfo=UTC)
METADATA = {"name": "l", "creationTimestamp": "2026-11-21T17:50:20Z"}


def test_a_lease_has_a_holder_or_none() -> None:
    assert [column.name for column in COLUMNS] == ["Name", "Holder", "Age"]
    assert cells({"metadata": METADATA, "spec": {"holderIdentity": "me"}}, NOW) == ["l", "me", "4m22s"]
    assert cells({"metadata": METADATA, "spec": {}}, NOW) == ["l", "", "4m22s"]
    assert cells({"metadata": METADATA}, NOW) == ["l", "", "4m22s"]
