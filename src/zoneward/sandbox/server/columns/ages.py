"""The column that all kinds but events have."""

from datetime import datetime
from typing import Final

from zoneward.sandbox.server.durations import since
from zoneward.sandbox.server.kinds import Column, Object

AGE: Final = Column("Age", description="How long ago the object was created.")


def age(thing: Object, now: datetime) -> str:
    return since(thing["metadata"].get("creationTimestamp"), now)
