"""At most one of several candidates may write at any time; and soon one does."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.controller.model.network import (
    CALM,
    LEASE_KEY,
    LEASES,
    NOON,
    Link,
    Network,
    Weather,
    in_no_time,
    in_virtual_time,
    seconds,
)

from zoneward.client.api_errors import CallFailed, Conflict, ServerFault, TimedOut, Unreachable
from zoneward.controller.controller_configuration import LeaseTiming
from zoneward.controller.leader_elector import (
    LeaderElector,
    LeaseClaim,
    LeaseWait,
    ObservedLease,
    UnansweredWrites,
    decide_about_lease,
    observe_lease,
    released_lease,
    since_boot,
)
from zoneward.kube.objects import Lease, LeaseSpec, ObjectMeta
from zoneward.sandbox.server.persistence import new_registry
from zoneward.sandbox.server.resource_registry import Registry, Write

BAD = Weather(delay=1.0, lost=0.1, unanswered=0.15, fault_before=0.07, fault_after=0.08, conflict=0.1, hang=0.05)


class Host:
    """A machine with one elector and separate clocks, which advance ``rate`` seconds in one second."""

    def __init__(
        self, election: "Place", name: str, *, rate: float = 1.0, skew: timedelta = timedelta(0), is_stuck: bool = False
    ) -> None:
        self.name, self.skew = name, skew
        self._network, self._rate, self._is_stuck = election.network, rate, is_stuck
        self._start = election.chance.uniform(0, 1e6)
        self.changes: list[tuple[float, bool]] = []
        """When leadership was reported to begin or to end, by the shared clock."""
        self.troubles: list[Exception] = []
        self.elector = LeaderElector(
            Link(election.network, name),
            key=LEASE_KEY,
            identity=name,
            timing=election.timing,
            on_change=lambda leads: self.changes.append((seconds(), leads)),
            on_error=self.troubles.append,
            clock=lambda: self._start + seconds() * self._rate,
            now=self._now,
            sleep=self._sleep,
            chance=election.chance.random,
        )
        self.running = asyncio.create_task(self.elector.run())

    async def kill(self) -> None:
        """Without a word to anybody."""
        self.running.cancel()
        await asyncio.wait([self.running])

    async def stand_still(self, for_seconds: float) -> None:
        self._network.cut[self.name] = seconds() + for_seconds
        await asyncio.sleep(for_seconds)

    async def _sleep(self, for_seconds: float) -> None:
        await asyncio.sleep(for_seconds / self._rate)
        await self._network.passes(self.name)

    def _now(self) -> datetime:
        return NOON + self.skew + timedelta(seconds=0 if self._is_stuck else seconds())


@dataclass(slots=True, kw_only=True)
class Place:
    """An API server, and hosts that reach it over one network. At no time may two of them write."""

    network: Network
    timing: LeaseTiming
    hosts: list[Host] = field(default_factory=list)
    leaders: list[tuple[float, str]] = field(default_factory=list)
    """Who might write, from when on; empty for nobody."""

    @property
    def chance(self) -> Random:
        return self.network.chance

    @property
    def registry(self) -> Registry:
        return self.network.registry

    def host(self, name: str, **options: Any) -> Host:
        host = Host(self, name, **options)
        self.hosts.append(host)
        return host

    def leader(self) -> str:
        """Who may write now."""
        names = [host.elector.identity for host in self.hosts if host.elector.may_write()]
        assert len(names) <= 1, f"at {seconds():.3f} s {' and '.join(names)} may write"
        return names[0] if names else ""

    def lease(self) -> dict[str, Any]:
        return self.registry.get(self.registry.kinds[LEASES], *LEASE_KEY)

    def has_lease(self) -> bool:
        return self.registry.find(LEASES, *LEASE_KEY) is not None

    def is_lease_known(self) -> bool:
        """Whether all hosts have read the Lease since its holder wrote it.

        A host that never saw it cannot know that its holder may still write once it is deleted.
        """
        if not self.has_lease():
            return False
        holder = self.lease()["spec"].get("holderIdentity")
        return all(host.elector.leader_identity == holder for host in self.hosts if not host.running.done())

    def delete_lease(self) -> None:
        self.registry.delete(self.registry.kinds[LEASES], *LEASE_KEY)

    def label_lease(self) -> None:
        label = str(seconds())
        self._edit(lambda old: {**old, "metadata": {**old["metadata"], "labels": {"a": label}}})

    def give_lease(self, *, to: str) -> None:
        self._edit(lambda old: {**old, "spec": {**old["spec"], "holderIdentity": to}})

    def _edit(self, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self.registry.update(self.registry.kinds[LEASES], *LEASE_KEY, change, Write())

    async def until_somebody_leads(self, *, other_than: str = "", within: float) -> float:
        """How many seconds it took."""
        start = seconds()
        while self.leader() in ("", other_than):
            assert seconds() - start <= within, f"nobody leads after {within} s"
            await asyncio.sleep(0.01)
        return seconds() - start

    async def _look(self) -> None:
        while True:
            name = self.leader()
            if not self.leaders or self.leaders[-1][1] != name:
                self.leaders.append((seconds(), name))
            await asyncio.sleep(0.02)


@asynccontextmanager
async def a_place(*, seed: int = 1, timing: LeaseTiming | None = None, weather: Weather = CALM) -> AsyncIterator[Place]:
    network = Network(new_registry(now=lambda: NOON), Random(seed), weather)
    election = Place(network=network, timing=timing or LeaseTiming())
    looking = asyncio.create_task(election._look())
    try:
        yield election
    finally:
        tasks = [looking, *(host.running for host in election.hosts), *network.in_flight]
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    for end in ends:
        if isinstance(end, BaseException) and not isinstance(end, asyncio.CancelledError):
            raise end


@in_virtual_time
async def test_the_first_replica_leads_and_renews() -> None:
    async with a_place() as election:
        host = election.host("first")
        await election.until_somebody_leads(within=0.2)
        assert host.elector.leading.is_set()
        assert host.elector.leader_identity == "first"
        (began,) = host.changes
        assert began[1] is True
        created, before = election.lease()["spec"], election.registry.store.version
        await asyncio.sleep(60)
        renewed = election.lease()["spec"]
        assert 30 <= election.registry.store.version - before <= 40, "every 1.5 to 2 seconds"
        assert renewed["renewTime"] > created["renewTime"]
        assert {**renewed, "renewTime": created["renewTime"]} == created
        assert host.changes == [began]


@pytest.mark.parametrize("seed", range(10))
@in_virtual_time
async def test_after_a_crash_another_replica_leads_within_the_duration_and_two_seconds(seed: int) -> None:
    async with a_place(seed=seed, weather=Weather(delay=0.1)) as election:
        first = election.host("first", skew=timedelta(days=-400))
        await election.until_somebody_leads(within=1)
        for name in ("second", "third"):
            election.host(name, skew=timedelta(hours=9))
        await asyncio.sleep(election.chance.uniform(5, 15))
        await first.kill()
        took = await election.until_somebody_leads(other_than="first", within=17)
        assert took >= 11, "nobody takes what may still be held"


@in_virtual_time
async def test_after_a_release_another_replica_leads_at_its_next_read() -> None:
    async with a_place() as election:
        first = election.host("first")
        await election.until_somebody_leads(within=1)
        second = election.host("second")
        await asyncio.sleep(5)
        await second.kill()
        await second.elector.release()
        assert election.lease()["spec"]["holderIdentity"] == "first"
        election.host("third")
        await asyncio.sleep(20)
        await first.kill()
        assert first.changes[-1] == (seconds(), False), "reported at once"
        await first.elector.release()
        spec = election.lease()["spec"]
        assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("", 1)
        await election.until_somebody_leads(within=1.6)
        assert election.lease()["spec"]["leaseTransitions"] == 1


@in_virtual_time
async def test_a_replica_that_ends_while_it_acquires_the_lease_releases_it() -> None:
    async with a_place(weather=Weather(delay=0.2)) as election:
        host = election.host("first")
        while not election.has_lease():
            await asyncio.sleep(0.001)
        assert election.lease()["spec"]["holderIdentity"] == "first"
        assert not host.changes, "the answer is still on its way"
        await host.kill()
        await host.elector.release()
        assert election.lease()["spec"]["holderIdentity"] == ""
        assert (host.changes, host.elector.is_leader) == ([], False)


@in_virtual_time
async def test_without_a_server_leadership_ends_at_the_deadline_and_returns_with_the_server() -> None:
    for gone in (Weather(hang=1.0), Weather(lost=1.0), Weather(fault_before=1.0)):
        async with a_place() as election:
            host = election.host("first")
            await asyncio.sleep(20)
            election.network.weather = gone
            began = seconds()
            await asyncio.sleep(30)
            (_, (ended, leads)) = host.changes
            assert not leads
            assert began + 8 <= ended <= began + 10 + 0.1
            (_, (expired, nobody)) = election.leaders[-2:]
            assert nobody == ""
            assert ended - 0.1 <= expired <= ended + 0.1, "reported when it happens"
            election.network.weather = CALM
            await election.until_somebody_leads(within=33 if gone.hang else 2)
            assert [leads for _, leads in host.changes] == [True, False, True]
            assert election.lease()["spec"]["leaseTransitions"] == 0


@in_virtual_time
async def test_a_lease_edited_by_hand_is_respected_at_the_next_renewal() -> None:
    async with a_place() as election:
        host = election.host("first")
        await asyncio.sleep(10)
        election.give_lease(to="second")
        await asyncio.sleep(2.1)
        assert [leads for _, leads in host.changes] == [True, False]
        assert host.elector.leader_identity == "second"
        await election.until_somebody_leads(within=17)
        assert election.lease()["spec"]["leaseTransitions"] == 1


@in_virtual_time
async def test_a_write_needs_its_margin_before_the_deadline() -> None:
    async with a_place(weather=Weather(delay=0)) as election:
        host = election.host("first")
        await asyncio.sleep(0.1)
        assert [host.elector.may_write(margin) for margin in (0, 9.8, 10)] == [True, True, False]
        election.network.weather = Weather(lost=1.0)
        await asyncio.sleep(6)
        assert [host.elector.may_write(margin) for margin in (0, 3, 5)] == [True, True, False]


# --- anything at any time ---------------------------------------------------------------------------------------------

SKEWS = st.timedeltas(timedelta(days=-1000), timedelta(days=1000))
HOSTS = st.lists(st.tuples(st.floats(0.9, 1.1), SKEWS, st.booleans()), min_size=2, max_size=4)
HAPPENINGS = st.lists(
    st.tuples(
        st.sampled_from(
            ["kill", "restart", "stand still", "set the clock", "label", "delete", "let go", "better", "worse"]
        ),
        st.integers(0, 3),
        st.floats(0, 25),
    ),
    max_size=12,
)


@settings(max_examples=12)
@given(hosts=HOSTS, happenings=HAPPENINGS, seed=st.integers(0, 1 << 30))
def test_two_replicas_may_never_write_at_once_and_one_leads_after_all_faults(
    hosts: list[tuple[float, timedelta, bool]], happenings: list[tuple[str, int, float]], seed: int
) -> None:
    in_no_time(any_schedule(hosts, happenings, seed))


async def any_schedule(
    hosts: list[tuple[float, timedelta, bool]], happenings: list[tuple[str, int, float]], seed: int
) -> None:
    async with a_place(seed=seed, weather=BAD) as election:
        for index, (rate, skew, is_stuck) in enumerate(hosts):
            election.host(f"host-{index}", rate=rate, skew=skew, is_stuck=is_stuck)
        standing: set[asyncio.Task[None]] = set()
        for what, index, pause in happenings:
            await happen(election, what, index % len(hosts), pause, standing)
            await asyncio.sleep(pause)
        election.network.weather = CALM
        for task in standing:
            await task
        # A leader notices a deleted Lease at its next renewal, and loses it where another replica was faster.
        await asyncio.sleep(30)
        election.host("the last")
        # A write may still hang, a clock run slow, and what was taken a moment ago is waited for.
        await election.until_somebody_leads(within=30 + 17 / 0.9)
        (led,) = {election.leader()}
        await asyncio.sleep(30)
        assert election.leader() == led, "and it stays so"


async def happen(election: Place, what: str, index: int, amount: float, standing: "set[asyncio.Task[None]]") -> None:
    host = election.hosts[index]
    if what in ("kill", "restart", "let go"):
        await host.kill()
        if what == "restart" and not election.has_lease():
            # A replica that starts now does not know that a holder of the deleted Lease may still write.
            return
        if what == "let go":
            await host.elector.release()
        if what == "restart":
            rate = Random(amount).uniform(0.9, 1.1)
            election.hosts[index] = election.host(f"host-{index}-since-{seconds()}", rate=rate)
            election.hosts.pop()
    elif what == "stand still":
        standing.add(asyncio.create_task(host.stand_still(2 * amount)))
    elif what == "set the clock":
        host.skew -= timedelta(seconds=100 * (amount - 12))
    elif what in ("label", "delete"):
        if what == "label" and election.has_lease():
            election.label_lease()
        elif what == "delete" and election.is_lease_known():
            election.delete_lease()
    else:
        election.network.weather = CALM if what == "better" else BAD


def test_the_clock_of_an_election_counts_seconds_since_the_machine_was_started() -> None:
    start, before = time.monotonic(), since_boot()
    time.sleep(0.01)
    assert 0.01 <= since_boot() - before <= time.monotonic() - start
    assert before >= time.monotonic() - 1, "never less than the one that does not count sleep"


# --- Whether a write may still be done though nobody waits for it ---


class Connection:
    """``failure``: what a write ends with; Ellipsis: it is cut off."""

    def __init__(self, failure: Any) -> None:
        self._failure = failure

    async def get(self, path: str, *_given: Any, **_options: Any) -> bytes:
        raise TimedOut(f"no answer from {path}")

    async def send(self, method: str, path: str, body: bytes, **options: Any) -> bytes:
        assert (method, path, body, options) == ("PUT", "/", b"", {"idempotent": True})
        if self._failure is Ellipsis:
            await asyncio.Event().wait()
        elif self._failure is not None:
            raise self._failure
        return b""


@pytest.mark.parametrize(
    ("failure", "age"),
    [
        pytest.param(None, math.inf, id="done"),
        pytest.param(Conflict(409, "Conflict", ""), math.inf, id="conflict"),
        pytest.param(ServerFault(503, "", ""), math.inf, id="503"),
        pytest.param(Unreachable("no connection", sent=False), math.inf, id="not-sent"),
        pytest.param(TimedOut("no answer"), 3.0, id="timed-out"),
        pytest.param(Unreachable("broke off"), 3.0, id="broke-off"),
        pytest.param(ServerFault(504, "Timeout", ""), 3.0, id="504"),
        pytest.param(RuntimeError(), 3.0, id="bug"),
        pytest.param(..., 3.0, id="cut-off"),
    ],
)
async def test_only_writes_without_an_answer_count_as_unanswered(failure: Any, age: float) -> None:
    now = 5.0
    connection = UnansweredWrites(Connection(failure), clock=lambda: now)
    with suppress(CallFailed):
        await connection.get("/")
    sending = asyncio.create_task(connection.send("PUT", "/", b"", idempotent=True))
    await asyncio.sleep(0)
    now = 8.0
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    assert connection.age == age


async def test_the_last_unanswered_write_counts_however_they_end() -> None:
    now = 5.0
    connection = UnansweredWrites(Connection(...), clock=lambda: now)
    writes = []
    for _ in range(2):
        now += 3.0
        writes.append(asyncio.create_task(connection.send("PUT", "/", b"", idempotent=True)))
        await asyncio.sleep(0)
    now = 12.0
    for write in reversed(writes):
        write.cancel()
        await asyncio.gather(write, return_exceptions=True)
    assert connection.age == 1.0


# --- What an elector does about the Lease that it sees, and what nobody should set ------------------------------------


KEY = ("kube-system", "zoneward")
STAMP = "2026-01-01T12:00:00.000000Z"
TIMING = LeaseTiming()


def a_lease(holder: str | None, *, version: str = "7", renewed: str = "long ago", **fields: Any) -> Lease:
    spec = LeaseSpec(
        holder_identity=holder,
        lease_duration_seconds=15,
        acquire_time="first",
        renew_time=renewed,
        lease_transitions=3,
    )
    namespace, name = KEY
    metadata = ObjectMeta(namespace=namespace, name=name, uid="u", resource_version=version, labels={"team": "a"})
    return Lease(metadata=metadata, spec=replace(spec, **fields))


def seen(lease: Lease | None, *, before: ObservedLease | None = None, at: float = 100.0) -> ObservedLease:
    return observe_lease(lease, before=before, at=at)


def decided(known: ObservedLease, *, now: float = 100.0, timing: LeaseTiming = TIMING) -> LeaseWait | LeaseClaim:
    return decide_about_lease(known, key=KEY, identity="me", timing=timing, now=now, stamp=STAMP)


def claimed(known: ObservedLease, *, now: float = 100.0) -> Lease:
    move = decided(known, now=now)
    assert isinstance(move, LeaseClaim)
    return move.lease


def test_a_missing_lease_is_created() -> None:
    lease = claimed(seen(None))
    assert lease.metadata == ObjectMeta(namespace="kube-system", name="zoneward")
    assert lease.spec == LeaseSpec(
        holder_identity="me", lease_duration_seconds=15, acquire_time=STAMP, renew_time=STAMP, lease_transitions=0
    )


def test_a_released_lease_is_acquired_at_once_and_the_transition_is_counted() -> None:
    lease = claimed(seen(a_lease("")))
    assert lease.metadata == a_lease("").metadata, "the version that was seen, its labels, its uid"
    spec = lease.spec
    assert (spec.holder_identity, spec.acquire_time, spec.renew_time) == ("me", STAMP, STAMP)
    assert spec.lease_transitions == 4
    full = claimed(seen(a_lease("", lease_transitions=2**31 - 1)))
    assert full.spec.lease_transitions == 2**31 - 1, "an API server refuses more"


def test_a_lease_of_another_holder_is_respected_for_its_duration() -> None:
    known = seen(a_lease("other"))
    assert decided(known, now=100.0) == LeaseWait(15.0)
    assert decided(known, now=114.5) == LeaseWait(0.5)
    assert claimed(known, now=115.0).spec.lease_transitions == 4
    # The holder's duration counts; without one, the candidate's own.
    for duration, waited in ((60, 60.0), (None, 15.0)):
        assert decided(seen(a_lease("other", lease_duration_seconds=duration))) == LeaseWait(waited)


def test_only_a_change_of_the_spec_restarts_the_duration() -> None:
    first = seen(a_lease("other"))
    labelled = seen(a_lease("other", version="8"), before=first, at=105.0)
    assert (labelled.since, labelled.lease) == (100.0, a_lease("other", version="8"))
    renewed = seen(a_lease("other", version="9", renewed="now"), before=labelled, at=106.0)
    assert renewed.since == 106.0


def test_only_the_own_lease_is_released_as_client_go_does() -> None:
    claim = released_lease(seen(a_lease("me")), identity="me", stamp=STAMP)
    assert claim is not None
    assert claim.lease.metadata == a_lease("me").metadata
    assert claim.lease.spec == LeaseSpec(
        holder_identity="", lease_duration_seconds=1, acquire_time=STAMP, renew_time=STAMP, lease_transitions=3
    )
    others = seen(a_lease("other"))
    gone = seen(None, before=seen(a_lease("me")), at=101.0)
    assert [released_lease(observed, identity="me", stamp=STAMP) for observed in (others, gone)] == [None, None]


@pytest.mark.parametrize(
    ("times", "problem"),
    [
        ((10, 10, 2), "leaseDuration: expected more than renewDeadline (10 s), got 10 s"),
        ((15, 2.4, 2), "renewDeadline: expected more than 1.2 x retryPeriod (2.4 s), got 2.4 s"),
        ((15, 10, 0), "retryPeriod: expected more than 0 s, got 0 s"),
        ((0.9, 0.5, 0.1), "leaseDuration: expected at least 1 s, got 0.9 s"),
        ((float("inf"), 10, 2), "expected finite times, got inf s, 10 s and 2 s"),
    ],
)
def test_invalid_timing_is_refused(times: tuple[float, float, float], problem: str) -> None:
    duration, deadline, period = times
    with pytest.raises(ValueError) as caught:  # noqa: PT011  (its words are what is tested)
        LeaseTiming(lease_duration=duration, renew_deadline=deadline, retry_period=period)
    assert str(caught.value) == problem


def test_the_written_duration_is_rounded_up() -> None:
    timing = LeaseTiming(lease_duration=1.2, renew_deadline=0.8, retry_period=0.2)
    assert (timing.whole_seconds, TIMING.whole_seconds) == (2, 15)
