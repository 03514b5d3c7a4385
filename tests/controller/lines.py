"""A log that is kept, for the tests to look at."""

from dataclasses import dataclass, field
from typing import Self

from zoneward.daemon.log import LogValue


@dataclass
class Lines:
    """A log that is kept."""

    lines: list[tuple[str, dict[str, LogValue]]] = field(default_factory=list)

    def bind(self, **_fields: LogValue) -> Self:
        return self

    def info(self, event: str, **fields: LogValue) -> None:
        self.lines.append((event, fields))

    debug = warning = error = info

    def about(self, words: str) -> list[dict[str, LogValue]]:
        """The fields of the lines whose event has these words."""
        return [fields for event, fields in self.lines if words in event]

    @property
    def events(self) -> list[str]:
        return [event for event, _ in self.lines]
