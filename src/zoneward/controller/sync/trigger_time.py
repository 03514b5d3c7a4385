"""The moment that the annotation ``endpoints.kubernetes.io/last-change-trigger-time`` gives: since when a change waits.

As upstream's tracker of trigger times: the earliest time, among Pods whose readiness changed since the last look and a
Service that was made since, at which one of them did. From it to the programming of a node's proxy the cluster's
network latency is measured, so that a time that is too old is an alarm about nothing. Two things are better here: what
was found is kept until it is written, where upstream forgets it when a write fails; and a Service that has slices when
it is first seen, as after a restart, has no time, where upstream gives its creation, years ago.

Times are text as the API server writes them, ``2019-01-01T00:00:00Z``: whole seconds in UTC, so that they compare as
they stand. Anything else is no time.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from zoneward.kube.objects import ObjectKey

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)


@dataclass(slots=True)
class _Known:
    """What is known of a Service; ``pending`` is the earliest time that is not written yet."""

    created: str = ""
    pods: dict[str, str] = field(default_factory=dict)
    pending: str | None = None


class TriggerTimes:
    """By Service the times seen at its Pods, and the one to write next.

    ``observe`` what is there or what changed, `time` to write it, `written` when it is. `forget` with the Service.
    """

    def __init__(self) -> None:
        self._known: dict[ObjectKey, _Known] = {}

    def observe(
        self, service: ObjectKey, *, created: str | None, pods: Mapping[str, str | None], has_slices: bool = False
    ) -> None:
        """All Pods of a Service, by name, with the time at which they became ready or not; None for one without.

        ``created`` is the Service's own time. ``has_slices``: it has some that we wrote, if not in this life.
        """
        known = self._known.get(service)
        if known is None:
            times = {pod: time for pod, given in pods.items() if (time := _time(given))}
            pending = None if has_slices else _time(created) or None
            self._known[service] = _Known(_time(created), times, pending)
            return
        gone = known.pods.keys() - pods.keys()
        self.changed(service, created=created, pods={**dict.fromkeys(gone), **pods})

    def changed(self, service: ObjectKey, *, created: str | None, pods: Mapping[str, str | None]) -> None:
        """Those Pods of a Service that changed since the last look, and no others; None for one that is gone.

        Costs what the change costs. Raises KeyError for a Service of which not all Pods were observed yet.
        """
        known = self._known[service]
        times = []
        for pod, given in pods.items():
            time = _time(given)
            if not time:
                known.pods.pop(pod, None)
            else:
                if time > known.pods.get(pod, ""):
                    times.append(time)
                known.pods[pod] = time
        made = _time(created)
        if made > known.created:
            times.append(made)
        known.created = made
        if known.pending is not None:
            times.append(known.pending)
        known.pending = min(times, default=None)

    def is_known(self, service: ObjectKey) -> bool:
        """Whether all Pods of a Service were observed once."""
        return service in self._known

    def time(self, service: ObjectKey) -> str | None:
        """What slices that are written now are to say; None: nothing, and what they said before goes away."""
        known = self._known.get(service)
        return None if known is None else known.pending

    def written(self, service: ObjectKey) -> None:
        """All that was seen is in the cluster, or was there already."""
        if (known := self._known.get(service)) is not None:
            known.pending = None

    def forget(self, service: ObjectKey) -> None:
        """A Service is gone. Another one may take its name."""
        self._known.pop(service, None)

    def __len__(self) -> int:
        return len(self._known)


def _time(text: str | None) -> str:
    """The time, or nothing for what is none; nothing is before every time."""
    return text if text is not None and _TIME.fullmatch(text) else ""
