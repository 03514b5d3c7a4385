"""In virtual time, decisions by measured demand are stable, follow the sun, and survive unusable figures."""

import math
from collections.abc import Callable, Mapping, Sequence

import pytest
from msgspec.structs import replace
from tests.controller.a_measured_cluster import (
    DAY,
    HOUR,
    MeasuredCluster,
    MeasuredService,
    Shares,
    steady,
    unavailable,
)

from zoneward.kube.demand import DemandFigures
from zoneward.kube.names import DEMAND_ANNOTATION
from zoneward.kube.objects import Service
from zoneward.routing.configuration import Configuration, DemandSettings
from zoneward.slices.demand_trial import DemandTrial, Parts

TWELVE = {"a": 4, "b": 4, "c": 4}
UNEVEN = {"a": 3, "b": 2, "c": 2}
LARGE = {"a": 8, "b": 8, "c": 8}
ALIKE, SKEWED = steady(a=1, b=1, c=1), steady(a=0.7, b=0.2, c=0.1)
MEASURED, BY_CPU = ("True", "Measured"), ("True", "CPUFits")


def sun(strength: float) -> Shares:
    """Traffic that follows the sun across three zones, eight hours apart."""
    return lambda zone, now: 1 + strength * math.cos(2 * math.pi * (now / DAY - "abc".index(zone) / 3))


def metric(cluster: MeasuredCluster, name: str, **labels: str) -> float:
    return cluster.metrics.registry.get_sample_value(f"zoneward_controller_demand_{name}", labels) or 0.0


def lines(cluster: MeasuredCluster, event: str) -> int:
    return cluster.log.events.count(event)


# --- stable -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("approach", ["ProportionalZoneCPU", "Balanced", "local"])
@pytest.mark.parametrize(("pods", "starts"), [(TWELVE, steady(a=0.5, b=0.3, c=0.2)), (TWELVE, SKEWED), (UNEVEN, ALIKE)])
async def test_steady_traffic_with_ten_percent_noise_causes_no_write_in_a_day(
    approach: str, pods: Mapping[str, int], starts: Shares
) -> None:
    cluster = MeasuredCluster(pods, noise=0.1)
    cart = cluster.add("cart", approach, starts)
    await cluster.run(HOUR)
    assert cart.writes <= 1
    cart.writes, cart.worst, before = 0, 0.0, cart.service
    await cluster.run(DAY)
    assert cart.writes == 0
    assert cart.worst < cart.limit
    assert cart.service.status == before.status


@pytest.mark.slow
@pytest.mark.parametrize(
    ("approach", "pods", "strength"),
    [
        ("ProportionalZoneCPU", TWELVE, 0.35),
        ("ProportionalZoneCPU", LARGE, 0.35),
        ("Balanced", TWELVE, 0.35),
        ("local", LARGE, 0.6),
    ],
)
async def test_a_daily_wave_of_traffic_overloads_no_endpoint_and_takes_six_changes(
    approach: str, pods: Mapping[str, int], strength: float
) -> None:
    """The strongest zone has 2.1 times the traffic of the weakest one (4 times with slice groups)."""

    cluster = MeasuredCluster(pods, noise=0.1, seed=2)
    cart = cluster.add("cart", approach, sun(strength))
    await cluster.run(6 * HOUR)
    cart.writes, cart.worst = 0, 0.0
    cart.in_zone.clear()
    await cluster.run(DAY)
    assert 0 < cart.writes <= 6
    assert cart.worst < cart.limit
    assert sum(cart.in_zone) / len(cart.in_zone) > 0.8


def arriving(upstream: MeasuredService) -> Shares:
    """What an earlier Service of a chain calls starts where its endpoints are, by the traffic that they get."""

    def starts(zone: str, _now: float) -> float:
        zones = upstream.traffic_now().zones
        return sum(traffic.demand * traffic.to.get(zone, 0.0) for traffic in zones.values()) + 1e-6

    return starts


def retried(service: list[MeasuredService], starts: Shares) -> Shares:
    """Clients of a zone whose endpoints have too much to do try again: up to twice the traffic."""

    def more(zone: str, now: float) -> float:
        if not service or service[0].plan is None:
            return starts(zone, now)
        overload = loads.get((service[0].writes, zone), 0.0)
        return starts(zone, now) * (1 + min(1.0, 2 * max(0.0, overload - 0.2)))

    loads: dict[tuple[int, str], float] = {}

    def observed(zone: str, now: float) -> float:
        amount = more(zone, now)
        if service and service[0].plan is not None:
            allocation = service[0].plan.families[0].decision.allocation
            if allocation is not None:
                count = sum(allocation.counts.values())
                consumed = allocation.size((zone,))
                loads[service[0].writes, zone] = starts(zone, now) * count / consumed - 1 if consumed else 0.0
        return amount

    return observed


@pytest.mark.slow
@pytest.mark.parametrize("approach", ["ProportionalZoneCPU", "Balanced"])
async def test_a_chain_of_three_services_settles(approach: str) -> None:
    cluster = MeasuredCluster(TWELVE, noise=0.1)
    front = cluster.add("front", approach, SKEWED)
    middle = cluster.add("middle", approach, arriving(front))
    back = cluster.add("back", approach, arriving(middle))
    await cluster.run(4 * HOUR)
    chain = (front, middle, back)
    assert front.writes == 1
    # Each step of the chain follows the one before, whose figures reach it over a window.
    assert all(service.writes <= 10 for service in chain)
    for chained_service in chain:
        chained_service.writes, chained_service.worst = 0, 0.0
    await cluster.run(4 * HOUR)
    assert [service.writes for service in chain] == [0, 0, 0]
    assert all(service.worst < service.limit for service in chain)


async def test_demand_settles_with_clients_that_retry_on_overload() -> None:
    cluster = MeasuredCluster(TWELVE, noise=0.1)
    service: list[MeasuredService] = []
    service.append(cart := cluster.add("cart", "ProportionalZoneCPU", retried(service, SKEWED)))
    await cluster.run(4 * HOUR)
    assert 1 <= cart.writes <= 3
    cart.writes = 0
    await cluster.run(4 * HOUR)
    assert cart.writes == 0
    assert cart.traffic_now().max_overload < cart.limit


async def test_in_an_overlay_demand_changes_as_with_slices_of_the_controller() -> None:
    outcomes = []
    for overlay in (False, True):
        cluster = MeasuredCluster(TWELVE, noise=0.1, seed=2, overlay=overlay)
        cart = cluster.add("cart", "ProportionalZoneCPU", sun(0.6))
        await cluster.run(8 * HOUR)
        outcomes.append((cart.parts, cart.writes, cart.worst))
    assert outcomes[0] == outcomes[1]


async def test_services_with_their_own_demand_or_without_need_of_it_are_not_changed() -> None:
    cluster = MeasuredCluster(TWELVE)
    near, own = (cluster.add("near", "PreferSameZone", SKEWED), cluster.add("own", "Balanced", SKEWED))
    none = cluster.add("none", "none", SKEWED)
    meta = own.service.metadata
    annotations = {**(meta.annotations or {}), DEMAND_ANNOTATION: "a=1,b=1,c=1"}
    cluster._put(replace(own.service, metadata=replace(meta, annotations=annotations)))
    await cluster.run(HOUR)
    assert [service.parts for service in (near, own, none)] == [None] * 3
    assert [service.condition for service in (near, own, none)] == [("", "")] * 3
    assert near.writes == own.writes == none.writes == 0


# --- figures that are of no use ---------------------------------------------------------------------------------------


async def test_a_failing_source_falls_back_to_cpu_once_its_figures_are_old() -> None:
    cluster = MeasuredCluster(TWELVE)
    cart = cluster.add("cart", "ProportionalZoneCPU", SKEWED)
    await cluster.run(HOUR)
    assert (cart.condition, cart.writes) == (MEASURED, 1)
    assert metric(cluster, "changes_total", cause="overload") == 1
    cluster.source = unavailable
    await cluster.run(3 * HOUR)
    assert (cart.condition, cart.writes) == (MEASURED, 1), "the figures are not too old yet"
    await cluster.run(HOUR)
    assert (cart.condition, cart.parts, cart.writes) == (("False", "FiguresOld"), None, 2)
    assert lines(cluster, "failed to read measured demand") == lines(cluster, "using CPU-based demand") == 1
    assert metric(cluster, "services", reason="FiguresOld") == 1
    assert metric(cluster, "figures_age_seconds") > 3 * HOUR
    assert metric(cluster, "reads_total", result="failure") == 48
    cluster.source = cluster.figures
    await cluster.run(HOUR)
    assert (cart.condition, cart.writes) == (MEASURED, 3)
    assert lines(cluster, "measured demand recovered") == 1


@pytest.mark.parametrize(
    ("amounts", "reason"),
    [
        (None, "FiguresMissing"),
        ({"a": 7.0, "b": 2.0, "c": 1.0}, "TooLittleTraffic"),
        ({"a": math.nan, "b": 2000.0, "c": 1000.0}, "FiguresAbsurd"),
        ({"a": 1e300, "b": 1.0}, "FiguresAbsurd"),
        ({"a": 100.0, "mars": 900.0}, "FiguresAbsurd"),
    ],
)
async def test_unusable_figures_affect_only_their_service(amounts: Mapping[str, float] | None, reason: str) -> None:
    cluster = MeasuredCluster(TWELVE)
    cart, wishlist = (cluster.add(name, "ProportionalZoneCPU", SKEWED) for name in ("cart", "wishlist"))
    new = cluster.add("new", "ProportionalZoneCPU", SKEWED)

    def figures() -> DemandFigures:
        by_service = dict(cluster.figures().amounts)
        for service in (cart, new) if cluster.now >= HOUR else (new,):
            del by_service[service.key]
            if amounts is not None:
                by_service[service.key] = amounts
        return DemandFigures(by_service, ("1 series without a zone",))

    cluster.source = figures
    await cluster.run(HOUR)
    assert (cart.condition, new.condition, new.writes) == (MEASURED, ("False", reason), 0)
    await cluster.run(5 * HOUR)
    assert (cart.condition, cart.parts) == (("False", reason), None)
    assert (wishlist.condition, wishlist.writes) == (MEASURED, 1)
    assert lines(cluster, "ignoring some demand figures") == 1


# --- limits and restarts ----------------------------------------------------------------------------------------------


async def test_the_number_of_changes_an_hour_is_limited_and_the_worst_are_first() -> None:
    settings = DemandSettings(max_changes_per_hour=2)
    cluster = MeasuredCluster(TWELVE, configuration=Configuration(demand=settings))
    parts = {"mild": 0.5, "bad": 0.6, "worse": 0.7, "worst": 0.8}
    for name, part in parts.items():
        cluster.add(name, "ProportionalZoneCPU", steady(a=part, b=1 - part - 0.1, c=0.1))
    # What was counted before the first read.
    await cluster.run(HOUR - 1)
    measured = {name for name, service in cluster.services.items() if service.parts is not None}
    assert measured == {"worse", "worst"}
    assert metric(cluster, "waiting_services") == 2
    assert lines(cluster, "changes of demand are waiting for the hourly limit") == 1
    await cluster.run(HOUR)
    assert all(service.condition == MEASURED and service.writes == 1 for service in cluster.services.values())
    assert metric(cluster, "waiting_services") == 0


async def test_after_a_restart_the_demand_in_force_stays_until_figures_change_it_or_are_too_old() -> None:
    cluster = MeasuredCluster(TWELVE, noise=0.1)
    cart = cluster.add("cart", "Balanced", SKEWED)
    steady_one = cluster.add("steady", "ProportionalZoneCPU", ALIKE)
    await cluster.run(2 * HOUR)
    parts, before = cart.parts, cart.service.status
    assert (cart.condition, steady_one.condition) == (MEASURED, BY_CPU)
    cart.writes = steady_one.writes = 0
    cluster.source = unavailable
    cluster.start()
    await cluster.run(HOUR)
    assert (cart.parts, cart.writes, cart.service.status) == (parts, 0, before)
    cluster.source = cluster.figures
    cluster.start()
    await cluster.run(2 * HOUR)
    assert (cart.parts, cart.writes, steady_one.writes) == (parts, 0, 0)
    cluster.source = unavailable
    cluster.start()
    await cluster.run(4 * HOUR)
    assert (cart.parts, cart.condition) == (None, ("False", "FiguresOld"))


async def test_a_service_that_is_deleted_or_fails_during_a_review_does_not_affect_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = MeasuredCluster(TWELVE)
    names = ("broken", "cart", "gone")
    broken, cart, gone = (cluster.add(name, "ProportionalZoneCPU", SKEWED) for name in names)
    begin_trial = cluster.follower._trial

    def tried(service: Service, expected: Sequence[Parts]) -> Callable[[], DemandTrial]:
        if service.metadata.name == "broken":
            raise ValueError("a mistake")
        if service.metadata.name == "gone":
            cluster.follower.service_changed(service, None)
        return begin_trial(service, expected)

    monkeypatch.setattr(cluster.follower, "_trial", tried)
    await cluster.follower.refresh()
    cluster.states.refresh_nodes()
    assert cart.parts is not None
    assert broken.parts is gone.parts is None
    assert lines(cluster, "internal error while checking the measured demand of a Service") == 1
