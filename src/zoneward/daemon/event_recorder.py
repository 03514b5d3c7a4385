"""Events for the API (``events.k8s.io/v1``), with names, series and a rate limit, as client-go's event recorder.

Three things differ. Two events are the same only if their notes are too, so that none is counted under a note that no
longer holds. Each repetition is written when it happens, since decisions change seldom; client-go writes the second one
and then one every half hour. The limit is that of client-go's older recorder: for each object 25 events at once, and
then one every five minutes.
"""

from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from hashlib import blake2s
from typing import Final

from msgspec.structs import replace

from zoneward.daemon.rate_limiter import RateLimiter
from zoneward.kube.formats import name_with_suffix
from zoneward.kube.objects import (
    Event,
    EventRegarding,
    EventSeries,
    ObjectMeta,
    Service,
    ServiceEvent,
    format_micro_time,
)

MAX_NOTE_BYTES: Final = 1024
"""Of UTF-8; an API server refuses longer notes."""
MAX_INSTANCE_BYTES: Final = 128
SERIES_TIMEOUT: Final = timedelta(minutes=6)
"""A repetition that comes later is a new Event; client-go's figure."""
BURST: Final = 25
REFILL: Final = timedelta(minutes=5)
"""After so long the limit of an object allows one more Event."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EventKey = tuple[str, str, str, str]
"""Two events with the same uid, type, reason and note are one series."""


class EventRecorder:
    """Decides whether an event is a new Event, one more of a series, or too many.

    ``controller`` names the program, ``action`` what it does to an object, ``instance`` this process among its
    replicas. ``now`` is the time of day, which may go back.
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
        self._instance = truncated(instance, MAX_INSTANCE_BYTES) or "unknown"
        self._now = now
        # Two replicas that record events of one Service in the same microsecond do not take the same name.
        self._mark = int.from_bytes(blake2s(self._instance.encode(), digest_size=4).digest(), "big") % 1000
        self._last_stamp = 0
        self._recent: OrderedDict[_EventKey, Event] = OrderedDict()
        self._limiters: OrderedDict[str, RateLimiter] = OrderedDict()
        self.dropped = 0
        """Events over the limit."""

    def __len__(self) -> int:
        return len(self._recent) + len(self._limiters)

    def record(
        self, service: Service, event: ServiceEvent, *, api_version: str = "v1", kind: str = "Service"
    ) -> Event | None:
        """The Event to create or, where it has a series, to update; None: it is over the limit.

        ``api_version`` and ``kind`` are those of the object, where ``service`` only holds the metadata of another kind.
        """
        now = self._now()
        self._forget_old(now)
        uid = service.metadata.uid
        if not self._try_accept(uid, now):
            self.dropped += 1
            return None
        note = truncated(event.message, MAX_NOTE_BYTES)
        key = (uid, event.type, event.reason, note)
        recorded = self._recent.pop(key, None)
        if recorded is None:
            recorded = self._new(service, event, note, now, api_version=api_version, kind=kind)
        else:
            count = recorded.series.count if recorded.series is not None else 1
            recorded = replace(recorded, series=EventSeries(count=count + 1, last_observed_time=format_micro_time(now)))
        self._recent[key] = recorded
        return recorded

    def renewed(self, event: Event) -> Event:
        """The same as a new Event, for one that was deleted during its series."""
        now = self._now()
        name = self._name(event.regarding.name, now)
        fresh = replace(
            event,
            metadata=ObjectMeta(name=name, namespace=event.metadata.namespace),
            event_time=format_micro_time(now),
            series=None,
        )
        key = _key_of(event)
        if key in self._recent:
            self._recent[key] = fresh
        return fresh

    # --- parts --------------------------------------------------------------------------------------------------------

    def _new(
        self, service: Service, event: ServiceEvent, note: str, now: datetime, *, api_version: str, kind: str
    ) -> Event:
        metadata = service.metadata
        return Event(
            # Events of objects without a namespace go there.
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
        """Unique: the object's name and nanoseconds, as in client-go. The last three digits mark the replica."""
        stamp = (now - _EPOCH) // timedelta(microseconds=1)
        self._last_stamp = max(stamp, self._last_stamp + 1)
        suffix = f".{self._last_stamp * 1000 + self._mark:x}"
        # A Pod's name may be as long as that of an Event.
        return name_with_suffix(service, suffix)

    def _try_accept(self, uid: str, now: datetime) -> bool:
        limiter = self._limiters.get(uid)
        if limiter is None:
            limiter = RateLimiter(per_second=1 / REFILL.total_seconds(), burst=BURST, now=now.timestamp())
            self._limiters[uid] = limiter
        self._limiters.move_to_end(uid)
        return limiter.try_accept(now.timestamp())

    def _forget_old(self, now: datetime) -> None:
        oldest = format_micro_time(now - SERIES_TIMEOUT)
        while self._recent:
            key, event = next(iter(self._recent.items()))
            if _last_observed(event) >= oldest:
                break
            del self._recent[key]
        while self._limiters:
            uid, limiter = next(iter(self._limiters.items()))
            if not limiter.is_full(now.timestamp()):
                break
            del self._limiters[uid]


def truncated(text: str, max_bytes: int) -> str:
    """At most ``max_bytes`` of UTF-8, with an ellipsis at the end where something is cut off."""
    if len(text.encode()) <= max_bytes:
        return text
    return text.encode()[: max_bytes - 3].decode(errors="ignore") + "…"


def _last_observed(event: Event) -> str:
    last = event.series.last_observed_time if event.series is not None else event.event_time
    return last or ""


def _key_of(event: Event) -> _EventKey:
    return event.regarding.uid, event.type, event.reason, event.note
