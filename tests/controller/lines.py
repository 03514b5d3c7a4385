"""A log that is kept, for the tests to look at."""

from dataclasses import dataclass, field
from typing import Self

from zoneward.daemon.log import Told


@dataclass
class Lines:
    """A log that is kept."""

    told: list[tuple[str, dict[str, Told]]] = field(default_factory=list)

    def bind(self, **_fields: Told) -> Self:
        return self

    def info(self, event: str, **fields: Told) -> None:
        self.told.append((event, fields))

    debug = warning = error = info

    @property
    def events(self) -> list[str]:
        return [event for event, _ in self.told]
