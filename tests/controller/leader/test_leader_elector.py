"""Of several candidates at most one may write, whatever happens; and soon one does."""

import asyncio
import math
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.controller.leader.an_election import Network, Place, a_place, in_no_time, in_virtual_time, seconds

from zoneward.client.api_errors import CallFailed, Conflict, ServerFault, TimedOut, Unreachable
from zoneward.controller.leader.election import LeaseTiming
from zoneward.controller.leader.leader_elector import UnansweredWrites, new_identity, since_boot

BAD = Network(delay=1.0, lost_requests=0.1, lost_answers=0.15, server_errors=0.15, conflicts=0.1, hangs=0.05)


@in_virtual_time
async def test_the_first_leads_and_says_so_and_renews() -> None:
    async with a_place(seed=1) as place:
        host = place.host("first")
        await place.until_somebody_leads(within=0.2)
        assert host.elector.leading.is_set()
        assert host.elector.leader_identity == "first"
        (told,) = host.told
        assert told[1] is True
        created = place.lease()["spec"]
        await asyncio.sleep(60)
        renewed = place.lease()["spec"]
        assert 30 <= len(place.writes) <= 40, "every 1.5 to 2 seconds"
        assert renewed["renewTime"] > created["renewTime"]
        assert {**renewed, "renewTime": created["renewTime"]} == created
        assert host.told == [told]


@pytest.mark.parametrize("seed", range(20))
def test_after_a_death_another_may_write_within_the_duration_and_two_seconds(seed: int) -> None:
    async def run() -> float:
        async with a_place(seed=seed, network=Network(delay=0.1)) as place:
            first = place.host("first", skew=timedelta(days=-400))
            await place.until_somebody_leads(within=1)
            for name in ("second", "third"):
                place.host(name, skew=timedelta(hours=9))
            await asyncio.sleep(place.chance.uniform(5, 15))
            await first.kill()
            return await place.until_somebody_leads(other_than="first", within=17)

    assert in_no_time(run()) >= 11, "nobody takes what may still be held"


@in_virtual_time
async def test_one_who_lets_go_is_followed_at_the_next_look() -> None:
    async with a_place(seed=1) as place:
        first = place.host("first")
        await place.until_somebody_leads(within=1)
        place.host("second")
        await asyncio.sleep(20)
        await first.kill()
        assert first.told[-1] == (seconds(), False), "told at once"
        await first.elector.release()
        spec = place.lease()["spec"]
        assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("", 1)
        await place.until_somebody_leads(within=1.6)
        assert place.lease()["spec"]["leaseTransitions"] == 1


@in_virtual_time
async def test_one_who_waits_does_not_let_go_of_what_another_holds() -> None:
    async with a_place(seed=1) as place:
        place.host("first")
        await place.until_somebody_leads(within=1)
        second = place.host("second")
        await asyncio.sleep(5)
        await second.kill()
        await second.elector.release()
        assert place.lease()["spec"]["holderIdentity"] == "first"


@in_virtual_time
async def test_one_who_is_ended_while_it_takes_the_lease_lets_go_of_it_nevertheless() -> None:
    async with a_place(seed=1, network=Network(delay=0.2)) as place:
        host = place.host("first")
        while not place.has_lease():
            await asyncio.sleep(0.001)
        assert place.lease()["spec"]["holderIdentity"] == "first"
        assert not host.told, "the answer is still on its way"
        await host.kill()
        await host.elector.release()
        assert place.lease()["spec"]["holderIdentity"] == ""
        assert (host.told, host.elector.is_leader) == ([], False)


@in_virtual_time
async def test_without_a_server_leadership_ends_at_the_deadline_to_the_moment_and_comes_back_with_it() -> None:
    for gone in (Network(hangs=1.0), Network(lost_requests=1.0), Network(server_errors=2.0)):
        async with a_place(seed=1) as place:
            host = place.host("first")
            await asyncio.sleep(20)
            place.network = gone
            began = seconds()
            await asyncio.sleep(30)
            (_, (ended, leads)) = host.told
            assert not leads
            assert began + 8 <= ended <= began + 10 + 0.1
            (_, (expired, nobody)) = place.leaders[-2:]
            assert nobody == ""
            assert ended - 0.1 <= expired <= ended + 0.1, "told when it happens"
            place.network = Network()
            await place.until_somebody_leads(within=33 if gone.hangs else 2)
            assert [leads for _, leads in host.told] == [True, False, True]
            assert place.lease()["spec"]["leaseTransitions"] == 0


@in_virtual_time
async def test_one_who_hears_no_answers_but_can_look_goes_on_leading() -> None:
    async with a_place(seed=1, network=Network(lost_answers=1.0)) as place:
        host = place.host("first")
        await asyncio.sleep(120)
        assert [leads for _, leads in host.told] == [True]
        assert len(host.troubles) > 30


@in_virtual_time
async def test_conflicts_out_of_nothing_are_read_and_tried_again_without_haste() -> None:
    async with a_place(seed=1) as place:
        host = place.host("first")
        await asyncio.sleep(10)
        place.network, before = Network(conflicts=1.0), len(place.writes)
        await asyncio.sleep(30)
        assert [leads for _, leads in host.told] == [True, False]
        assert len(place.writes) == before
        assert 30 <= len(host.troubles) <= 60
        place.network = Network()
        await place.until_somebody_leads(within=1.2)


@in_virtual_time
async def test_another_s_write_to_the_lease_costs_no_leadership() -> None:
    async with a_place(seed=1) as place:
        host = place.host("first")
        await asyncio.sleep(10)
        for _ in range(20):
            await asyncio.sleep(0.7)
            place.label_lease()
        assert [leads for _, leads in host.told] == [True]
        await asyncio.sleep(2)
        assert place.lease()["metadata"]["labels"], "kept when it is renewed"


@in_virtual_time
async def test_a_person_who_gives_the_lease_to_another_is_obeyed_at_the_next_renewal() -> None:
    async with a_place(seed=1) as place:
        host = place.host("first")
        await asyncio.sleep(10)
        place.give_lease(to="second")
        await asyncio.sleep(2.1)
        assert [leads for _, leads in host.told] == [True, False]
        assert host.elector.leader_identity == "second"
        await place.until_somebody_leads(within=17)
        assert place.lease()["spec"]["leaseTransitions"] == 1


@in_virtual_time
async def test_who_stood_still_may_not_write_before_it_has_looked() -> None:
    async with a_place(seed=1) as place:
        first = place.host("first")
        await place.until_somebody_leads(within=1)
        place.host("second")
        await asyncio.sleep(10)
        standing = asyncio.create_task(first.stand_still(40))
        await place.until_somebody_leads(other_than="first", within=17)
        await standing
        assert not first.elector.may_write()
        await asyncio.sleep(20)
        assert place.leader() == first.elector.leader_identity == "second"


@in_virtual_time
async def test_a_margin_is_time_that_must_be_left_until_the_deadline() -> None:
    async with a_place(seed=1, network=Network(delay=0)) as place:
        host = place.host("first")
        await asyncio.sleep(0.1)
        assert [host.elector.may_write(margin) for margin in (0, 9.8, 10)] == [True, True, False]
        place.network = Network(lost_requests=1.0)
        await asyncio.sleep(6)
        assert [host.elector.may_write(margin) for margin in (0, 3, 5)] == [True, True, False]


@pytest.mark.parametrize("seed", range(10))
@in_virtual_time
async def test_a_lease_deleted_by_somebody_makes_no_two_leaders(seed: int) -> None:
    async with a_place(seed=seed, network=Network(delay=0.5)) as place:
        for name in ("first", "second", "third"):
            place.host(name)
        for _ in range(4):
            await asyncio.sleep(place.chance.uniform(8, 25))
            if place.has_lease():
                place.delete_lease()
        await place.until_somebody_leads(within=20)


@in_virtual_time
async def test_a_clock_that_stands_or_goes_back_renews_all_the_same() -> None:
    async with a_place(seed=1) as place:
        first = place.host("first", is_stuck=True)
        await place.until_somebody_leads(within=1)
        place.host("second")
        await asyncio.sleep(40)
        for _ in range(10):
            await asyncio.sleep(5)
            first.skew -= timedelta(hours=1)
        assert {name for _, name in place.leaders} <= {"", "first"}
        assert [leads for _, leads in first.told] == [True]


@in_virtual_time
async def test_shorter_times_are_kept_too() -> None:
    timing = LeaseTiming(lease_duration=2, renew_deadline=1.2, retry_period=0.3)
    async with a_place(seed=1, timing=timing) as place:
        first = place.host("first")
        await place.until_somebody_leads(within=1)
        place.host("second")
        await asyncio.sleep(3)
        await first.kill()
        await place.until_somebody_leads(other_than="first", within=2.4)


# --- anything at any time ---------------------------------------------------------------------------------------------

SKEWS = st.timedeltas(timedelta(days=-1000), timedelta(days=1000))
HOSTS = st.lists(st.tuples(st.floats(0.9, 1.1), SKEWS, st.booleans()), min_size=2, max_size=4)
HAPPENINGS = st.lists(
    st.tuples(
        st.sampled_from(["kill", "restart", "stand still", "set the clock", "label", "let go", "better", "worse"]),
        st.integers(0, 3),
        st.floats(0, 25),
    ),
    max_size=12,
)


@settings(max_examples=20)
@given(hosts=HOSTS, happenings=HAPPENINGS, seed=st.integers(0, 1 << 30))
def test_at_no_time_may_two_write_and_when_all_is_well_again_one_does(
    hosts: list[tuple[float, timedelta, bool]], happenings: list[tuple[str, int, float]], seed: int
) -> None:
    in_no_time(any_schedule(hosts, happenings, seed))


async def any_schedule(
    hosts: list[tuple[float, timedelta, bool]], happenings: list[tuple[str, int, float]], seed: int
) -> None:
    async with a_place(seed=seed, network=BAD) as place:
        for number, (rate, skew, is_stuck) in enumerate(hosts):
            place.host(f"host-{number}", rate=rate, skew=skew, is_stuck=is_stuck)
        standing: set[asyncio.Task[None]] = set()
        for what, number, pause in happenings:
            await happen(place, what, number % len(hosts), pause, standing)
            await asyncio.sleep(pause)
        place.network = Network()
        for each in standing:
            await each
        place.host("the last")
        # A write may still hang, a clock run slow, and what was taken a moment ago is waited for.
        await place.until_somebody_leads(within=30 + 17 / 0.9)
        (led,) = {place.leader()}
        await asyncio.sleep(30)
        assert place.leader() == led, "and it stays so"


async def happen(place: Place, what: str, number: int, amount: float, standing: "set[asyncio.Task[None]]") -> None:
    host = place.hosts[number]
    if what in ("kill", "restart", "let go"):
        await host.kill()
        if what == "let go":
            await host.elector.release()
        if what == "restart":
            rate = Random(amount).uniform(0.9, 1.1)
            place.hosts[number] = place.host(f"host-{number}-since-{seconds()}", rate=rate)
            place.hosts.pop()
    elif what == "stand still":
        standing.add(asyncio.create_task(host.stand_still(2 * amount)))
    elif what == "set the clock":
        host.skew -= timedelta(seconds=100 * (amount - 12))
    elif what == "label":
        if place.has_lease():
            place.label_lease()
    else:
        place.network = Network() if what == "better" else BAD


def test_the_clock_of_an_election_counts_seconds_since_the_machine_was_started() -> None:
    start, before = time.monotonic(), since_boot()
    time.sleep(0.01)
    assert 0.01 <= since_boot() - before <= time.monotonic() - start
    assert before >= time.monotonic() - 1, "never less than the one that does not count sleep"


def test_no_identity_is_used_twice() -> None:
    assert new_identity() != new_identity()


# --- Whether a write may still be done though nobody waits for it ---


NO_QUERY: Mapping[str, str] = {}


class Connection:
    def __init__(self, failure: Exception | None, *, hangs: bool) -> None:
        self._failure, self._hangs = failure, hangs

    async def get(self, path: str, query: Mapping[str, str] = NO_QUERY, *, timeout: float | None = None) -> bytes:
        raise TimedOut(f"no answer from {path} {query} {timeout}")

    async def send(self, method: str, path: str, body: bytes, **options: Any) -> bytes:
        assert (method, path, body, options) == ("PUT", "/", b"", {"idempotent": True})
        if self._hangs:
            await asyncio.sleep(60)
        if self._failure is not None:
            raise self._failure
        return b""


def age_after(failure: Exception | None = None, *, hangs: bool = False) -> float:
    async def run() -> float:
        now = 5.0
        connection = UnansweredWrites(Connection(failure, hangs=hangs), clock=lambda: now)
        with suppress(CallFailed):
            await connection.get("/")
        sending = asyncio.create_task(connection.send("PUT", "/", b"", idempotent=True))
        await asyncio.sleep(0)
        now = 8.0
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        return connection.age

    return asyncio.run(run())


@pytest.mark.parametrize(
    "failure",
    [None, Conflict(409, "Conflict", ""), ServerFault(503, "", ""), Unreachable("no connection", sent=False)],
    ids=["done", "conflict", "503", "not-sent"],
)
def test_a_write_that_was_answered_or_never_sent_is_over(failure: Exception | None) -> None:
    assert age_after(failure) == math.inf


@pytest.mark.parametrize(
    "failure",
    [TimedOut("no answer"), Unreachable("broke off"), ServerFault(504, "Timeout", ""), RuntimeError()],
    ids=["timed-out", "broke-off", "504", "bug"],
)
def test_one_whose_answer_was_lost_counts_from_when_it_was_begun(failure: Exception) -> None:
    assert age_after(failure) == 3.0


def test_so_does_one_that_was_cut_off() -> None:
    assert age_after(hangs=True) == 3.0
