"""Of Namespaces."""

from datetime import datetime
from typing import Final

from zoneward.sandbox.server.columns.ages import AGE, age
from zoneward.sandbox.server.kinds import NAME, Column, Object

COLUMNS: Final = (NAME, Column("Status", description="The status of the namespace"), AGE)


def cells(thing: Object, now: datetime) -> list[object]:
    status = thing.get("status") or {}
    return [thing["metadata"].get("name", ""), status.get("phase", ""), age(thing, now)]
