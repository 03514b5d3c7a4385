"""No group keeps the others from their turn, however much it has to do and however long each of it takes."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count, pairwise

from hypothesis import given
from hypothesis import strategies as st

from zoneward.controller.queue.fair_turns import ALLOWANCE, LONG_STEP, FairTurns
from zoneward.controller.queue.work_queue import Batching, ItemSchedule, RequeueDelay, Urgency


@dataclass(eq=False)
class Item:
    name: str
    ticket: int = field(default_factory=count(1).__next__)
    due: float = 0.0


def turns(*items: tuple[str, str, float]) -> FairTurns[str, Item]:
    """Of items with their group, name and rank."""
    made = FairTurns[str, Item]()
    for group, name, rank in items:
        made.push(group, Item(name), rank=rank)
    return made


def names(fair: FairTurns[str, Item], now: float = 0.0) -> list[str]:
    result = []
    while (item := fair.pop(now)) is not None:
        result.append(item.name)
    return result


def test_groups_that_have_used_little_are_served_by_rank() -> None:
    fair = turns(("a", "a1", 1), ("b", "b0", 0), ("a", "a3", 3), ("c", "c2", 2))
    fair.charge("a", ALLOWANCE)
    assert names(fair) == ["b0", "a1", "c2", "a3"]


def test_the_group_that_has_used_the_least_is_next() -> None:
    fair = turns(("a", "a0", 0), ("b", "b1", 1), ("c", "c2", 2))
    fair.charge("a", 3)
    fair.charge("b", 2)
    assert names(fair) == ["c2", "b1", "a0"]


def test_a_new_group_has_no_credit() -> None:
    fair = turns(*(("a", f"a{ticket}", ticket) for ticket in range(3)))
    for _ in range(2):
        assert fair.pop(0) is not None
        fair.charge("a", 10)
    fair.push("b", Item("b0"), rank=9)
    fair.push("b", Item("b1"), rank=9)
    assert names(fair)[0] == "b0"
    fair.charge("b", 10 + 2 * ALLOWANCE)
    fair.push("a", Item("a9"), rank=9)
    fair.push("b", Item("b2"), rank=0)
    assert names(fair)[0] == "a9", "b used as much since it came as a before"


def test_after_a_long_step_only_groups_within_their_share_are_served() -> None:
    fair = turns(("a", "a0", 0), ("a", "a1", 1))
    assert fair.pop(0) is not None
    fair.charge("a", 1.0)
    fair.stepped(1.0, now=1.0)
    assert (fair.pop(1.5), fair.next_due()) == (None, 2.0)
    fair.push("b", Item("b0", due=1.5), rank=1.5)
    assert (fair.next_due(), names(fair, 1.5)) == (1.5, ["b0"])
    assert (fair.next_due(), names(fair, 2.0)) == (2.0, ["a1"])
    fair.stepped(LONG_STEP / 2, now=2.0)
    fair.push("a", Item("a2"), rank=0)
    assert names(fair, 2.0) == ["a2"]


def test_outdated_entries_do_not_count() -> None:
    fair = turns(("b", "b1", 1))
    item = Item("a")
    fair.push("a", item, rank=5)
    item.ticket += 1000
    fair.push("a", item, rank=0)
    gone = Item("gone")
    fair.push("c", gone, rank=-1)
    gone.ticket = 0
    assert names(fair) == ["a", "b1"]
    assert fair.next_due() is None


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.integers(0, 9)), max_size=40))
def test_every_item_is_served_once(given: list[tuple[str, int, int]]) -> None:
    fair, served = FairTurns[str, Item](), Counter[str]()
    for ticket, (group, rank, cost) in enumerate(given):
        fair.push(group, Item(f"{group}{ticket}"), rank=rank)
        if cost > 6 and (item := fair.pop(ticket)) is not None:
            served[item.name] += 1
            fair.charge(item.name[0], cost)
            fair.stepped(cost, now=ticket)
    served.update(names(fair, now=1_000_000))
    assert served == Counter(f"{group}{ticket}" for ticket, (group, _, _) in enumerate(given))


STEP = 0.25
"""Seconds of CPU for one decision with 32 zones."""


def waits(group_of: Callable[[str], str], *, step: float = STEP) -> tuple[list[float], int]:
    """50 Services of a namespace change 400 times a second. How long a Pod of another namespace waits, ten times, until
    its Service is handed out; and how often those of the first were decided."""
    schedule = ItemSchedule[str](Batching(), RequeueDelay(), group_of=group_of)
    decided = 0
    clock, changed, waited = 0.0, 0, list[float]()
    added: float | None = None
    while len(waited) < 10:
        while changed < clock * 400:
            schedule.add(f"flood/{changed % 50}", now=changed / 400)
            changed += 1
        if added is None and clock >= 5 * (len(waited) + 1):
            added = clock
            schedule.add("shop/cart", now=clock)
        item = schedule.take(clock)
        if item is None:
            clock = max(clock + 0.001, min(schedule.next_due() or clock, clock + 0.01))
            continue
        is_victim = item.key == "shop/cart"
        if is_victim:
            assert added is not None
            waited.append(clock - added)
            added = None
        cpu = 0.001 if is_victim else step
        clock += cpu
        decided += not is_victim
        schedule.stepped(item.key, cpu, now=clock)
        schedule.done(item.key, now=clock, writes=1)
    return waited, decided


def namespace(key: str) -> str:
    return key.partition("/")[0]


def test_a_flood_of_one_namespace_delays_another_by_one_step_at_most() -> None:
    waited, decided = waits(namespace)
    assert max(waited) <= STEP
    assert decided > 50, "the flood gets half of the time"
    waited, _ = waits(lambda _key: "all")
    assert max(waited) > 5, "it took its place behind all others"


def test_cheap_decisions_of_a_flood_do_not_wait() -> None:
    waited, decided = waits(namespace, step=0.002)
    assert max(waited) < 0.003
    assert decided > 1000


def test_writes_of_one_namespace_that_take_long_do_not_keep_all_workers() -> None:
    """They use no CPU: a large ConfigMap takes the API server almost a second, and they wait for one another."""
    schedule = ItemSchedule[str](Batching(), RequeueDelay(), group_of=namespace, workers=10)
    for index in range(1000):
        schedule.add(f"flood/{index}", now=0)
    clock = 0.0
    writing = [item.key for _ in range(10) if (item := schedule.take(clock)) is not None]
    while True:
        clock += 0.7
        if clock > 5:
            schedule.add("shop/cart", now=clock)
        schedule.done(writing.pop(0), now=clock, writes=1)
        item = schedule.take(clock)
        assert item is not None
        if item.key == "shop/cart":
            break
        writing.append(item.key)
    assert clock < 6


def test_fresh_decisions_of_one_service_are_paced_by_their_cpu() -> None:
    batching = Batching()
    schedule = ItemSchedule[str](batching, RequeueDelay())
    clock, times = 0.0, []
    while clock < 10:
        schedule.add("a", now=clock, urgency=Urgency.URGENT)
        if schedule.take(clock) is not None:
            times.append(clock)
            schedule.stepped("a", 0.1, now=clock)
            schedule.done("a", now=clock, writes=0)
        clock += 0.01
    assert len(times) <= 2 + 10 / batching.longest
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert max(gaps) <= batching.longest + 0.021, "freshness is worth more"
