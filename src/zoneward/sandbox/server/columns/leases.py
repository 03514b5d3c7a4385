"""Of Leases."""

from datetime import datetime
from typing import Final

from zoneward.sandbox.server.columns.ages import AGE, age
from zoneward.sandbox.server.kinds import NAME, Column, Object

COLUMNS: Final = (NAME, Column("Holder", description="Who holds the lease."), AGE)


def cells(thing: Object, now: datetime) -> list[object]:
    spec = thing.get("spec") or {}
    return [thing["metadata"].get("name", ""), spec.get("holderIdentity") or "", age(thing, now)]
