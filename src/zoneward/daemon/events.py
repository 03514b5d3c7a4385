"""Events as the API has them (``events.k8s.io/v1``), with names, series and a limit.

As client-go's recorder, but for three things. A note belongs to what makes two events the same, so that none is counted
under words that no longer hold. Each repetition is written when it happens, for a decision changes seldom, where
client-go writes the second and then one in half an hour. And a Service that changes to and fro without end is told of
as often as client-go's older recorder allows: 25 times at once, then once in five minutes.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2s
from typing import Final

from msgspec.structs import replace

from zoneward.kube.objects import Event, EventRegarding, EventSeries, ObjectMeta, Service, format_micro_time
from zoneward.routing import events

MOST_NOTE: Final = 1024
"""Bytes of a note, in UTF-8; an API server refuses longer ones."""
MOST_INSTANCE: Final = 128
SERIES_LASTS: Final = timedelta(minutes=6)
"""After which the same again is a new Event; client-go's figure."""
BURST: Final = 25
REFILL: Final = timedelta(minutes=5)
"""In which a Service that is told of too often may be told of once more."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_Sameness = tuple[str, str, str, str]


@dataclass(slots=True)
class _Allowance:
    """How often a Service may still be told of; ``at`` is when that was reckoned."""

    left: float
    at: datetime


class Recorder:
    """What was told of late, which says whether an event is a new one, one more of a series, or one too many.

    ``controller`` names the program, ``action`` what it does to a Service, ``instance`` this process among its kind.
    ``now`` is the time of day and may be anything.
    """

    def __init__(
        self,
        *,
        controller: str,
        action: str,
        instance: str,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._controller, self._action = controller, action
        self._instance = shortened(instance, MOST_INSTANCE) or "unknown"
        self._now = now
        # Two replicas that tell of one Service in the same microsecond do not take the same name.
        self._mark = int.from_bytes(blake2s(self._instance.encode(), digest_size=4).digest(), "big") % 1000
        self._last_stamp = 0
        self._recent: OrderedDict[_Sameness, Event] = OrderedDict()
        self._allowances: OrderedDict[str, _Allowance] = OrderedDict()
        self.dropped = 0
        """Events that were one too many."""

    def __len__(self) -> int:
        return len(self._recent) + len(self._allowances)

    def record(
        self, service: Service, event: events.Event, *, api_version: str = "v1", kind: str = "Service"
    ) -> Event | None:
        """The Event to create, or, where it has a series, the one to change; None for one too many.

        ``kind`` is another one's where only the metadata of an object are known.
        """
        now = self._now()
        self._forget_old(now)
        uid = service.metadata.uid
        if not self._may_tell(uid, now):
            self.dropped += 1
            return None
        note = shortened(event.message, MOST_NOTE)
        sameness = (uid, event.type, event.reason, note)
        told = self._recent.pop(sameness, None)
        if told is None:
            told = self._new(service, event, note, now, api_version=api_version, kind=kind)
        else:
            count = told.series.count if told.series is not None else 1
            told = replace(told, series=EventSeries(count=count + 1, last_observed_time=format_micro_time(now)))
        self._recent[sameness] = told
        return told

    def renewed(self, event: Event) -> Event:
        """The same as a new Event, for one whose series went on after it was gone."""
        now = self._now()
        name = self._name(event.regarding.name, now)
        fresh = replace(
            event,
            metadata=ObjectMeta(name=name, namespace=event.metadata.namespace),
            event_time=format_micro_time(now),
            series=None,
        )
        sameness = _sameness(event)
        if sameness in self._recent:
            self._recent[sameness] = fresh
        return fresh

    # --- parts --------------------------------------------------------------------------------------------------------

    def _new(
        self, service: Service, event: events.Event, note: str, now: datetime, *, api_version: str, kind: str
    ) -> Event:
        metadata = service.metadata
        return Event(
            # What has no namespace is told of in that one.
            metadata=ObjectMeta(name=self._name(metadata.name, now), namespace=metadata.namespace or "default"),
            event_time=format_micro_time(now),
            reporting_controller=self._controller,
            reporting_instance=self._instance,
            action=self._action,
            reason=event.reason,
            regarding=EventRegarding(
                api_version=api_version,
                kind=kind,
                namespace=metadata.namespace,
                name=metadata.name,
                uid=metadata.uid,
                resource_version=metadata.resource_version or "",
            ),
            note=note,
            type=event.type,
        )

    def _name(self, service: str, now: datetime) -> str:
        """Unlike all before: the Service and nanoseconds, as client-go's, of which the last three are our mark."""
        stamp = (now - _EPOCH) // timedelta(microseconds=1)
        self._last_stamp = max(stamp, self._last_stamp + 1)
        return f"{service}.{self._last_stamp * 1000 + self._mark:x}"

    def _may_tell(self, uid: str, now: datetime) -> bool:
        allowance = self._allowances.setdefault(uid, _Allowance(BURST, now))
        self._allowances.move_to_end(uid)
        gained = max(now - allowance.at, timedelta()) / REFILL
        allowance.left, allowance.at = min(BURST, allowance.left + gained), now
        if allowance.left < 1:
            return False
        allowance.left -= 1
        return True

    def _forget_old(self, now: datetime) -> None:
        oldest = format_micro_time(now - SERIES_LASTS)
        while self._recent:
            sameness, event = next(iter(self._recent.items()))
            if _last_told(event) >= oldest:
                break
            del self._recent[sameness]
        while self._allowances:
            uid, allowance = next(iter(self._allowances.items()))
            if now - allowance.at < BURST * REFILL:
                break
            del self._allowances[uid]


def shortened(text: str, most: int) -> str:
    """At most so many bytes of UTF-8, the last an ellipsis where something is missing."""
    if len(text.encode()) <= most:
        return text
    return text.encode()[: most - 3].decode(errors="ignore") + "…"


def _last_told(event: Event) -> str:
    last = event.series.last_observed_time if event.series is not None else event.event_time
    return last or ""


def _sameness(event: Event) -> _Sameness:
    return event.regarding.uid, event.type, event.reason, event.note
