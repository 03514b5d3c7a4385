"""The leader elector: what it does with the Lease, and whether this replica may write now.

The clocks of two replicas are never compared. The times in a Lease are of the replica that wrote them, and are only for
people. A replica measures with its own monotonic clock how long a Lease has not changed. Three facts ensure that no two
replicas may write at once, however late messages arrive, as long as their clocks run at about the same speed:

1. A leader may write for ``renew_deadline`` from the moment at which it *began* the last write of the Lease that is
   known to be done. The Lease was written then or later.
2. Another takes over only when it has *seen* the Lease unchanged for the duration in it, which is longer. It saw it
   when it was written or later.
3. It takes over by a write that the server refuses if the Lease has changed since it was seen.
"""

import asyncio
import math
import random
import socket
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, Final, NoReturn

from msgspec.structs import replace

from zoneward.client.api_errors import ApiError, CallFailed, Conflict, NotFound
from zoneward.client.resources import LEASES
from zoneward.client.transport_interface import WriteTransport
from zoneward.client.writer import WriteOutcome, Writer, write_outcome
from zoneward.controller.controller_configuration import LeaseTiming
from zoneward.kube.objects import Lease, LeaseSpec, ObjectKey, ObjectMeta, format_micro_time

_MOST_TRANSITIONS: Final = 2**31 - 1
"""An API server refuses a Lease with more, and no replica could lead any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedLease:
    """The Lease when it was last read or written.

    ``since``: by this replica's clock, when it first saw the Lease in this state. ``is_gone``: the Lease was deleted,
    and ``since`` is of the last one seen; or it never existed, and ``lease`` is None.
    """

    lease: Lease | None
    since: float
    is_gone: bool = False

    @property
    def spec(self) -> LeaseSpec:
        return self.lease.spec if self.lease is not None else LeaseSpec()

    @property
    def holder(self) -> str:
        """The holder's identity; empty for none."""
        return self.spec.holder_identity or ""


def observe_lease(lease: Lease | None, *, before: ObservedLease | None, at: float) -> ObservedLease:
    """``lease`` None: it does not exist. ``at``: when the answer arrived, not when the request was sent."""
    if lease is None:
        # The holder of a deleted Lease may not have noticed, and may write until its deadline.
        before = before or ObservedLease(lease=None, since=at)
        return ObservedLease(lease=before.lease, since=before.since, is_gone=True)
    is_same = before is not None and before.lease is not None and before.lease.spec == lease.spec
    return ObservedLease(lease=lease, since=before.since if before is not None and is_same else at)


@dataclass(frozen=True, slots=True)
class LeaseWait:
    """Another replica leads, for ``seconds`` more unless it renews."""

    seconds: float


@dataclass(frozen=True, slots=True)
class LeaseClaim:
    """The Lease to write: create it where it has no version, else update that version."""

    lease: Lease


def decide_about_lease(
    observed: ObservedLease,
    *,
    key: ObjectKey,
    identity: str,
    timing: LeaseTiming,
    now: float,
    stamp: str,
    annotations: Mapping[str, str] = MappingProxyType({}),
) -> LeaseWait | LeaseClaim:
    """What to do about a Lease, ``key`` (namespace, name). ``now``: of the clock of ``observed.since``.

    ``annotations`` are set in the claimed Lease.

    ``stamp``: the time of day, for people; it differs from all earlier stamps of this replica, because other
    replicas recognize a renewal by it.
    """
    if observed.holder not in ("", identity):
        # The duration that its holder relies on, which may differ from this replica's.
        duration = observed.spec.lease_duration_seconds or timing.lease_duration
        left = observed.since + duration - now
        if left > 0:
            return LeaseWait(left)
    old = observed.spec
    is_ours = observed.holder == identity
    spec = LeaseSpec(
        holder_identity=identity,
        lease_duration_seconds=timing.whole_seconds,
        acquire_time=old.acquire_time if is_ours and old.acquire_time else stamp,
        renew_time=stamp,
        lease_transitions=min(
            (old.lease_transitions or 0) + (observed.lease is not None and not is_ours), _MOST_TRANSITIONS
        ),
    )
    if observed.lease is not None and not observed.is_gone:
        metadata = observed.lease.metadata
    else:
        metadata = ObjectMeta(namespace=key[0], name=key[1])
    metadata = replace(metadata, annotations={**(metadata.annotations or {}), **annotations} or None)
    return LeaseClaim(Lease(metadata=metadata, spec=spec))


def released_lease(observed: ObservedLease, *, identity: str, stamp: str) -> LeaseClaim | None:
    """The released Lease, as client-go writes it; None if another replica holds it."""
    if observed.holder != identity or observed.is_gone or observed.lease is None:
        return None
    spec = LeaseSpec(
        holder_identity="",
        lease_duration_seconds=1,
        acquire_time=stamp,
        renew_time=stamp,
        lease_transitions=observed.spec.lease_transitions,
    )
    return LeaseClaim(replace(observed.lease, spec=spec))


def always_leading() -> asyncio.Event:
    """For a controller without other replicas."""
    event = asyncio.Event()
    event.set()
    return event


_MOMENT: Final = timedelta(microseconds=1)


def since_boot() -> float:
    """Seconds that also count while the machine is suspended, where the system has such a clock."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


def new_identity() -> str:
    """A unique identity: a restarted process on the same host must not take over the Lease of the old one."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _UnansweredClaim:
    """A write of the Lease whose outcome is not known."""

    spec: LeaseSpec
    replaces: str | None
    """The version that it replaces; None: it creates the Lease."""
    started: float


class LeaderElector:
    """`run` it to take part in the election. ``key``: namespace and name of the Lease; ``identity`` is unique.
    ``annotations`` are set in the Lease while this replica leads.

    ``on_change`` gets True when this replica begins to lead, and False as soon as it no longer does: another one took
    over, or it did not renew by the deadline. ``on_error`` gets failed calls, which are retried.
    ``clock`` counts seconds and never decreases, ``now`` is the time of day and may be anything, ``chance`` returns
    random numbers from 0 to 1.
    """

    def __init__(
        self,
        connection: WriteTransport,
        *,
        key: ObjectKey,
        identity: str,
        timing: LeaseTiming | None = None,
        annotations: Mapping[str, str] = MappingProxyType({}),
        on_change: Callable[[bool], None] = lambda _is_leader: None,
        on_error: Callable[[CallFailed], None] = lambda _error: None,
        clock: Callable[[], float] = since_boot,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.identity: Final = identity
        self.timing: Final = timing or LeaseTiming()
        self.leading: Final = asyncio.Event()
        """Set while this replica leads, as ``on_change`` was last called."""
        self._connection, self._key, self._annotations = connection, key, annotations
        self._on_change, self._on_error = on_change, on_error
        self._clock, self._now, self._sleep, self._chance = clock, now, sleep, chance
        self._runs = False
        self._observed: ObservedLease | None = None
        self._unanswered: tuple[_UnansweredClaim, ...] = ()
        self._renewed: float | None = None
        """When the last write began that is known to have made or kept this replica the holder."""
        self._stamp = datetime.min.replace(tzinfo=UTC)

    @property
    def is_leader(self) -> bool:
        return self.may_write()

    @property
    def leader_identity(self) -> str:
        """The holder of the Lease when it was last read; empty for none."""
        return self._observed.holder if self._observed is not None and not self._observed.is_gone else ""

    def may_write(self, margin: float = 0.0) -> bool:
        """Whether a write that may take ``margin`` seconds may begin: it would end before the renew deadline.

        Call it at the moment of writing: then it is right even after the process or the machine was suspended.
        """
        return self._left() > margin

    async def run(self) -> NoReturn:
        """Take part in the election until cancelled; then this replica does not lead. Finish all other writes before,
        and call `release` after."""
        self._runs = True
        try:
            while True:
                await self._sleep(min(await self._try_once(), self._left_if_leading()))
                self._notify()
        finally:
            self._runs, self._renewed = False, None
            self._notify()

    async def release(self) -> None:
        """After `run`: release the Lease, if this replica holds it, so that others need not wait. A failure is
        harmless."""
        assert not self._runs, "release the Lease after the elector has stopped"
        try:
            for is_last in (False, True):
                if self._unanswered or is_last:
                    await self._read()
                if self._observed is None:
                    return
                claim = released_lease(self._observed, identity=self.identity, stamp=self._next_stamp())
                if claim is None:
                    return
                with suppress(Conflict):
                    await self._write(claim)
                    return
        except CallFailed as error:
            self._on_error(error)

    # --- one attempt --------------------------------------------------------------------------------------------------

    async def _try_once(self) -> float:
        """Returns the seconds until the next attempt."""
        try:
            return await self._take_or_wait()
        except CallFailed as error:
            self._on_error(error)
            retry_after = (error.retry_after if isinstance(error, ApiError) else None) or 0.0
            return max(self._spread(0.25, 0.5), min(retry_after, self.timing.retry_period))
        finally:
            self._notify()

    async def _take_or_wait(self) -> float:
        observed = self._observed
        if observed is None or self._unanswered or isinstance(self._decide(observed), LeaseWait):
            observed = await self._read()
        for is_last in (False, True):
            move = self._decide(observed)
            if isinstance(move, LeaseWait):
                # Others read a little more often than a leader renews: they count from the last renewal that they saw.
                return min(move.seconds, self._spread(0.5, 0.75))
            try:
                await self._write(move)
                break
            except (Conflict, NotFound):
                if is_last:
                    raise
                observed = await self._read()
        return self._spread(0.75, 1.0)

    def _decide(self, observed: ObservedLease) -> LeaseWait | LeaseClaim:
        now, stamp = self._clock(), self._next_stamp()
        return decide_about_lease(
            observed,
            key=self._key,
            identity=self.identity,
            timing=self.timing,
            now=now,
            stamp=stamp,
            annotations=self._annotations,
        )

    async def _read(self) -> ObservedLease:
        namespace, name = self._key
        lease: Lease | None = None
        with suppress(NotFound):
            lease = await self._writer().read(LEASES, namespace=namespace, name=name)
        observed = self._observed = observe_lease(lease, before=self._observed, at=self._clock())
        if lease is None:
            self._unanswered = tuple(claim for claim in self._unanswered if claim.replaces is None)
            return observed
        for claim in self._unanswered:
            if claim.spec == lease.spec:
                self._renewed = claim.started
        if observed.holder != self.identity:
            self._renewed = None
            self._notify()
        version = lease.metadata.resource_version
        self._unanswered = tuple(claim for claim in self._unanswered if claim.replaces == version)
        return observed

    async def _write(self, claim: LeaseClaim) -> None:
        lease = claim.lease
        version = lease.metadata.resource_version
        sent = _UnansweredClaim(spec=lease.spec, replaces=version, started=self._clock())
        self._unanswered += (sent,)
        writer = self._writer()
        try:
            metadata = await (writer.update(LEASES, lease) if version else writer.create(LEASES, lease))
        except CallFailed as error:
            if write_outcome(error) is not WriteOutcome.UNKNOWN:
                self._unanswered = tuple(claim for claim in self._unanswered if claim is not sent)
            raise
        # Earlier unanswered claims replace an older version: the server will refuse them.
        self._unanswered = ()
        self._observed = observe_lease(replace(lease, metadata=metadata), before=self._observed, at=self._clock())
        if lease.spec.holder_identity == self.identity:
            self._renewed = sent.started

    def _writer(self) -> Writer:
        # Not longer than this replica leads, so that it notices the end at once.
        return Writer(self._connection, limit=min(self.timing.call_timeout, self._left_if_leading()))

    # --- time ---------------------------------------------------------------------------------------------------------

    def _left(self) -> float:
        """Seconds for which this replica still leads; negative if it does not."""
        if not self._runs or self._renewed is None:
            return -1.0
        return self._renewed + self.timing.renew_deadline - self._clock()

    def _left_if_leading(self) -> float:
        left = self._left()
        return left if left > 0 else float("inf")

    def _spread(self, least: float, most: float) -> float:
        """A random part of the retry period: replicas that started together do not stay together."""
        return self.timing.retry_period * (least + (most - least) * self._chance())

    def _next_stamp(self) -> str:
        """Later than all earlier ones, even when the clock is set back: an equal Lease looks like one that was not
        renewed."""
        self._stamp = max(self._now(), self._stamp + _MOMENT)
        return format_micro_time(self._stamp)

    def _notify(self) -> None:
        is_leader = self.is_leader
        if is_leader == self.leading.is_set():
            return
        if is_leader:
            self.leading.set()
        else:
            self.leading.clear()
        self._on_change(is_leader)


_NO_QUERY: Final[Mapping[str, str]] = {}
_GATEWAY_TIMEOUT: Final = 504
"""The only response that leaves the outcome unknown: the server behind the gateway may continue."""


class UnansweredWrites:
    """A connection that remembers unanswered writes: the server may still apply them, so the Lease must not be
    released too early. ``clock`` counts seconds."""

    def __init__(self, connection: WriteTransport, *, clock: Callable[[], float]) -> None:
        self._connection, self._clock = connection, clock
        self._started_at = -math.inf

    @property
    def age(self) -> float:
        """Seconds since the last such write began; infinite without one."""
        return self._clock() - self._started_at

    async def get(self, path: str, query: Mapping[str, str] = _NO_QUERY, *, timeout: float | None = None) -> bytes:
        return await self._connection.get(path, query, timeout=timeout)

    async def send(self, method: str, path: str, body: bytes, **options: Any) -> bytes:
        started_at = self._clock()
        try:
            return await self._connection.send(method, path, body, **options)
        except BaseException as error:
            if _may_be_applied(error):
                # Another write that began later may have ended before.
                self._started_at = max(self._started_at, started_at)
            raise


def _may_be_applied(error: BaseException) -> bool:
    """Whether the server may still apply a write that ended with this error."""
    if isinstance(error, ApiError):
        return error.status == _GATEWAY_TIMEOUT
    return not isinstance(error, CallFailed) or error.sent
