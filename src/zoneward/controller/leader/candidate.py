"""A candidate for leading: it reads and writes the Lease, and says at every moment whether it may write."""

import asyncio
import random
import socket
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NoReturn

from msgspec.structs import replace

from zoneward.client.api_errors import ApiError, CallFailed, Conflict, NotFound
from zoneward.client.resources import LEASES
from zoneward.client.transport_interface import WriteTransport
from zoneward.client.writer import WriteOutcome, Writer, write_outcome
from zoneward.controller.leader.election import Claim, Seen, Timing, Wait, decide, release, seen
from zoneward.kube.objects import Lease, LeaseSpec, ObjectKey, format_micro_time

_MOMENT: Final = timedelta(microseconds=1)


def since_boot() -> float:
    """Seconds that also count while the machine sleeps, where it can tell: whoever slept must know that it did."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


def new_identity() -> str:
    """Another each time, so that whoever comes back under the same host name does not take itself for its forebear."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sent:
    """A write whose outcome is not known."""

    spec: LeaseSpec
    over: str | None
    """The version that it replaces; None: it creates."""
    started: float


class Candidate:
    """One who wants to lead. ``key``: namespace and name of the Lease; ``identity``: unlike that of any other.

    ``on_change`` is called with True when we begin to lead, and with False at once when we no longer do: another took
    over, or nothing was renewed by the deadline. What fails is told to ``on_trouble`` and tried again. ``clock`` counts
    seconds and never goes back, ``now`` is the time of day and may be anything, ``chance`` is from 0 to 1.
    """

    def __init__(
        self,
        connection: WriteTransport,
        *,
        key: ObjectKey,
        identity: str,
        timing: Timing | None = None,
        on_change: Callable[[bool], None] = lambda _leads: None,
        on_trouble: Callable[[CallFailed], None] = lambda _trouble: None,
        clock: Callable[[], float] = since_boot,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.identity: Final = identity
        self.timing: Final = timing or Timing()
        self.leading: Final = asyncio.Event()
        """Set while ``on_change`` was last told True."""
        self._connection, self._key = connection, key
        self._on_change, self._on_trouble = on_change, on_trouble
        self._clock, self._now, self._sleep, self._chance = clock, now, sleep, chance
        self._runs = False
        self._known: Seen | None = None
        self._sent: tuple[_Sent, ...] = ()
        self._renewed: float | None = None
        """When the last write was begun that is known to have made us, or kept us, the holder."""
        self._stamp = datetime.min.replace(tzinfo=UTC)

    @property
    def leads(self) -> bool:
        return self.may_write()

    @property
    def leader(self) -> str:
        """Who held the Lease when it was last looked at; empty for nobody."""
        return self._known.holder if self._known is not None and not self._known.is_gone else ""

    def may_write(self, margin: float = 0.0) -> bool:
        """Whether a write that may take ``margin`` seconds may begin: it would end before the renew deadline.

        Asked at the moment of writing, it holds also after the process or the machine stood still.
        """
        return self._left() > margin

    async def run(self) -> NoReturn:
        """Want to lead until cancelled; then we no longer do. Finish all writes before; call `let_go` after."""
        self._runs = True
        try:
            while True:
                await self._sleep(min(await self._round(), self._left_if_leading()))
                self._tell()
        finally:
            self._runs, self._renewed = False, None
            self._tell()

    async def let_go(self) -> None:
        """After `run`: leave the Lease to others, where we hold it, so that they need not wait. Failing is no harm."""
        assert not self._runs, "a candidate lets go after it has stopped to renew"
        try:
            for is_last in (False, True):
                if self._sent or is_last:
                    await self._read()
                claim = (
                    None
                    if self._known is None
                    else release(self._known, identity=self.identity, stamp=self._next_stamp())
                )
                if claim is None:
                    return
                try:
                    await self._write(claim)
                except Conflict:
                    continue
                return
        except CallFailed as error:
            self._on_trouble(error)

    # --- one round ----------------------------------------------------------------------------------------------------

    async def _round(self) -> float:
        """Seconds until the next one."""
        try:
            return await self._take_or_wait()
        except CallFailed as error:
            self._on_trouble(error)
            asked = (error.retry_after if isinstance(error, ApiError) else None) or 0.0
            return max(self._spread(0.25, 0.5), min(asked, self.timing.retry_period))
        finally:
            self._tell()

    async def _take_or_wait(self) -> float:
        known = self._known
        if known is None or self._sent or isinstance(self._decide(known), Wait):
            known = await self._read()
        for is_last in (False, True):
            move = self._decide(known)
            if isinstance(move, Wait):
                # Others look a little more often than a leader renews: a death is counted from the last renewal seen.
                return min(move.seconds, self._spread(0.5, 0.75))
            try:
                await self._write(move)
            except (Conflict, NotFound):
                if is_last:
                    raise
                known = await self._read()
            else:
                break
        return self._spread(0.75, 1.0)

    def _decide(self, known: Seen) -> Wait | Claim:
        now, stamp = self._clock(), self._next_stamp()
        return decide(known, key=self._key, identity=self.identity, timing=self.timing, now=now, stamp=stamp)

    async def _read(self) -> Seen:
        namespace, name = self._key
        lease: Lease | None
        try:
            lease = await self._writer().read(LEASES, namespace=namespace, name=name)
        except NotFound:
            lease = None
        known = self._known = seen(lease, before=self._known, at=self._clock())
        if lease is None:
            self._sent = tuple(each for each in self._sent if each.over is None)
            return known
        for each in self._sent:
            if each.spec == lease.spec:
                self._renewed = each.started
        if known.holder != self.identity:
            self._renewed = None
            self._tell()
        version = lease.metadata.resource_version
        self._sent = tuple(each for each in self._sent if each.over == version)
        return known

    async def _write(self, claim: Claim) -> None:
        lease = claim.lease
        over = lease.metadata.resource_version
        sent = _Sent(spec=lease.spec, over=over, started=self._clock())
        self._sent += (sent,)
        writer = self._writer()
        try:
            metadata = await (writer.update(LEASES, lease) if over else writer.create(LEASES, lease))
        except CallFailed as error:
            if write_outcome(error) is not WriteOutcome.UNKNOWN:
                self._sent = tuple(each for each in self._sent if each is not sent)
            raise
        # Earlier ones whose outcome is not known replace a version that is no more: they will never be done.
        self._sent = ()
        self._known = seen(replace(lease, metadata=metadata), before=self._known, at=self._clock())
        if lease.spec.holder_identity == self.identity:
            self._renewed = sent.started

    def _writer(self) -> Writer:
        # Not longer than we lead, so that the end of it is told at once.
        return Writer(self._connection, limit=min(self.timing.call, self._left_if_leading()))

    # --- time ---------------------------------------------------------------------------------------------------------

    def _left(self) -> float:
        """Seconds for which we lead; negative where we do not."""
        if not self._runs or self._renewed is None:
            return -1.0
        return self._renewed + self.timing.renew_deadline - self._clock()

    def _left_if_leading(self) -> float:
        left = self._left()
        return left if left > 0 else float("inf")

    def _spread(self, least: float, most: float) -> float:
        """Of the retry period: candidates that started together do not stay together."""
        return self.timing.retry_period * (least + (most - least) * self._chance())

    def _next_stamp(self) -> str:
        """Later than all before, also where the clock is set back: others take equal Leases for one not renewed."""
        self._stamp = max(self._now(), self._stamp + _MOMENT)
        return format_micro_time(self._stamp)

    def _tell(self) -> None:
        leads = self.leads
        if leads == self.leading.is_set():
            return
        if leads:
            self.leading.set()
        else:
            self.leading.clear()
        self._on_change(leads)
