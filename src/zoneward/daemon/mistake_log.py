"""Mistakes in the program, which end no worker: each is told once, with its place."""

from zoneward.daemon.log import Log
from zoneward.daemon.mistakes import place_of
from zoneward.kube.objects import ObjectKey


class MistakeLog:
    """Told at the first time for each place in the program, however many Services it is about."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._places: set[str] = set()

    def tell(self, event: str, service: ObjectKey, error: Exception) -> None:
        """``event`` says what came of it."""
        place = place_of(error)
        if place in self._places:
            return
        self._places.add(place)
        self._log.error(event, service="/".join(service), error=f"{type(error).__name__}: {error}", at=place)
