"""What a simulation says, beside the same worked out row by row in plain Python."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from statistics import fmean, stdev

import numpy as np
import pytest
from tests.lab.test_tally import CONTENDERS, EVERYTHING, cut, drawn, tallies

from zoneward.lab.datasets import Inputs
from zoneward.lab.scoring import score_columns
from zoneward.lab.simulation import SHARES, summarize
from zoneward.lab.tally import SimulationSpec, Tally, merge_tallies
from zoneward.routing.simulation_results import (
    BOUND,
    CREDITS,
    ENCODINGS,
    HINTS,
    SLICE_GROUPS,
    WEIGHTS,
    Means,
    Simulation,
)

LISTED = [
    (contender.label, encoding)
    for encoding in ENCODINGS
    for contender in CONTENDERS
    if encoding != WEIGHTS or contender.balanced
]
SHOWN = [key for key in LISTED if key not in [(contender.label, HINTS) for contender in CONTENDERS if contender.weighs]]
PIECES = [*cut(drawn(1500), 300, 301, 900), drawn(400, zones=5, first=1500), drawn(200, zones=2, first=1900)]


@dataclass
class Row:
    """What is known of an input that was scored."""

    index: int
    zones: int
    endpoints: int
    possible: float
    credits: dict[tuple[str, str], dict[str, float]]
    fell_back: dict[str, bool]


@cache
def rows() -> list[Row]:
    """Those of `PIECES`, by the formulas of ``docs/lab.md``."""
    return [row for inputs in PIECES for row in worked_out(inputs)]


def worked_out(inputs: Inputs) -> list[Row]:
    result = []
    columns = [score_columns(contender, inputs.demand, inputs.supply).T.tolist() for contender in CONTENDERS]
    for index, (nodes, endpoints) in enumerate(zip(inputs.demand.tolist(), inputs.supply.tolist(), strict=True)):
        n, t = sum(nodes), sum(endpoints)
        if n == 0 or t == 0:
            continue
        row = Row(
            index=int(inputs.numbers[index]),
            zones=len(nodes),
            endpoints=t,
            possible=sum(min(r / n, e / t) for r, e in zip(nodes, endpoints, strict=True)),
            credits={},
            fell_back={},
        )
        for contender, item in zip(CONTENDERS, columns, strict=True):
            in_zone, worst, mean, slices, _, fate = item[index]
            row.fell_back[contender.label] = fate == 1
            for encoding in ENCODINGS:
                if (contender.label, encoding) not in SHOWN:
                    continue
                if encoding == WEIGHTS:
                    full = dict.fromkeys(CREDITS, 100.0)
                    possible = {"total": 55 + 45 * row.possible, "in_zone": 100 * row.possible}
                    row.credits[contender.label, encoding] = full | possible
                    continue
                share = 1.0 if encoding == HINTS else math.ceil(t / contender.max_endpoints_per_slice) / slices
                row.credits[contender.label, encoding] = {
                    "total": 45 * in_zone + 20 * (1 - worst) + 20 * (1 - mean) + 15 * share,
                    "in_zone": 100 * in_zone,
                    "max_overload": 100 * (1 - worst),
                    "mean_overload": 100 * (1 - mean),
                    "overload": 50 * (1 - worst + 1 - mean),
                    "slices": 100 * share,
                }
        result.append(row)
    return result


def said(
    wanted: SimulationSpec = EVERYTHING, *, bounds: bool = False, shares: tuple[float, ...] = SHARES
) -> Simulation:
    result = merge_tallies(wanted, tallies(wanted, PIECES))
    return summarize(wanted, result, dataset="drawn", of=2100, seed=5, bounds=bounds, shares=shares)


def means_of(means: Sequence[Means]) -> dict[tuple[str, str], Means]:
    assert len({(mean.algorithm, mean.encoding) for mean in means}) == len(means)
    return {(mean.algorithm, mean.encoding): mean for mean in means}


def check_means(means: Sequence[Means], among: list[Row]) -> None:
    by_key = means_of(means)
    assert [*by_key] == LISTED
    for (label, encoding), item in by_key.items():
        assert item.fell_back == sum(row.fell_back[label] for row in among if encoding != WEIGHTS)
        assert item.gap_to_bound is None
        if (label, encoding) not in SHOWN:
            assert (item.credits, item.wins, item.ties) == (None, 0, 0)
            continue
        assert item.credits is not None
        assert tuple(item.credits) == CREDITS
        for credit in CREDITS:
            wanted = fmean(row.credits[label, encoding][credit] for row in among)
            assert item.credits[credit] == pytest.approx(wanted, rel=1e-9, abs=1e-9), (label, encoding, credit)
        wins = ties = 0
        for row in among:
            totals = {key: values["total"] for key, values in row.credits.items() if key[1] == encoding}
            best = {key for key, total in totals.items() if total > max(totals.values()) - 1e-9}
            wins += best == {(label, encoding)}
            ties += len(best) > 1 and (label, encoding) in best
        assert (item.wins, item.ties) == (wins, ties), (label, encoding)


def test_means_wins_and_ties_are_those_of_the_rows() -> None:
    simulation = said()
    check_means(simulation.means, rows())
    by_key = means_of(simulation.means)
    assert by_key["PreferSameZone", HINTS].fell_back > 100
    assert all(by_key[key].ties > 10 for key in SHOWN if key[1] != WEIGHTS)
    assert by_key["random", SLICE_GROUPS].wins > 10


def test_rows_without_endpoints_or_nodes_count_for_nothing_but_are_counted() -> None:
    simulation = said()
    assert (simulation.rows, simulation.unscored) == (len(rows()), 2100 - len(rows()))
    assert simulation.unscored > 100
    assert (simulation.dataset, simulation.of, simulation.seed, simulation.partial) == ("drawn", 2100, 5, False)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_only_the_encodings_asked_for_are_told(encoding: str) -> None:
    simulation = said(replace(EVERYTHING, encodings=(encoding,)), bounds=True)
    assert {mean.encoding for mean in simulation.means} == {encoding}
    assert {item.encoding for item in simulation.worst} == {encoding}
    assert {quantile.encoding for quantile in simulation.quantiles} == {encoding}
    assert {difference.encoding for difference in simulation.differences} == (
        {encoding} if encoding != WEIGHTS else set()
    )


def test_the_bound_is_what_supply_can_keep_in_the_zone() -> None:
    """55 + 45 * sum over z of min(r_z, E_z / T), which no other mean passes."""
    simulation = said(bounds=True)
    among = {"all": (simulation.means, rows())}
    for band in simulation.bands:
        among[band.name] = (band.means, [row for row in rows() if band_of(row.endpoints) == band.name])
    for name, (means, mine) in among.items():
        for encoding in ENCODINGS:
            bound = means_of(means)[BOUND, encoding].credits
            assert bound is not None
            assert bound["total"] == pytest.approx(fmean(55 + 45 * row.possible for row in mine)), name
            assert bound["in_zone"] == pytest.approx(fmean(100 * row.possible for row in mine))
            assert [bound[credit] for credit in CREDITS[2:]] == [100] * 4
            for mean in means:
                assert mean.credits is None or mean.credits["total"] <= bound["total"] + 1e-9


def test_the_gap_is_what_totals_lack_to_the_bound_on_average() -> None:
    simulation = said(bounds=True)
    among = [(simulation.means, rows())]
    among += [(band.means, [row for row in rows() if band_of(row.endpoints) == band.name]) for band in simulation.bands]
    for means, mine in among:
        for key, item in means_of(means).items():
            if key not in SHOWN:
                assert item.gap_to_bound is None, key
                continue
            assert item.gap_to_bound == pytest.approx(
                fmean(55 + 45 * row.possible - row.credits[key]["total"] for row in mine), abs=1e-9
            )
            assert (item.gap_to_bound == 0) == (key[1] == WEIGHTS), key


def test_encodings_are_told_in_the_order_in_which_they_were_asked_for() -> None:
    simulation = said(replace(EVERYTHING, encodings=(WEIGHTS, HINTS)))
    assert [*dict.fromkeys(mean.encoding for mean in simulation.means)] == [WEIGHTS, HINTS]


def band_of(endpoints: int) -> str:
    for low, high in ((1, 8), (9, 20), (21, 50), (51, 100), (101, 300), (301, 1000)):
        if low <= endpoints <= high:
            return f"{low} to {high}"
    return "over 1000"


@pytest.mark.parametrize(
    ("by", "name"), [("endpoints", lambda row: band_of(row.endpoints)), ("zones", lambda row: f"{row.zones} zones")]
)
def test_bands_are_told_as_the_whole_is(by: str, name: Callable[[Row], str]) -> None:
    simulation = said(replace(EVERYTHING, by=by))
    expected = {name(row) for row in rows()}
    assert {band.name for band in simulation.bands} == expected
    assert len(simulation.bands) == len(expected) == (7 if by == "endpoints" else 3)
    for band in simulation.bands:
        mine = [row for row in rows() if name(row) == band.name]
        assert band.rows == len(mine)
        check_means(band.means, mine)
    check_means(simulation.means, rows())


@pytest.mark.slow
def test_quantiles_are_those_of_numpy_up_to_the_width_of_a_bin() -> None:
    """Between the two rows that a quantile may fall between: 0.005 beside them, 0.1 % of what lacks below -100."""
    simulation = said()
    assert [(quantile.algorithm, quantile.encoding) for quantile in simulation.quantiles] == SHOWN
    for item in simulation.quantiles:
        assert tuple(item.by_share) == SHARES
        for share, result in item.by_share.items():
            assert {*result} == {*CREDITS}
            for credit, value in result.items():
                values = [row.credits[item.algorithm, item.encoding][credit] for row in rows()]
                low, high = (float(np.quantile(values, share, method=method)) for method in ("lower", "higher"))
                width = 0.0051 if low > -99.99 else 0.001 * (100 - low)
                assert low - width <= value <= high + width, (item.algorithm, item.encoding, share, credit)


def test_differences_and_their_intervals_are_those_of_paired_rows() -> None:
    result = {
        (difference.algorithm, difference.other, difference.encoding): difference for difference in said().differences
    }
    labels = [contender.label for contender in CONTENDERS]
    assert [*result] == [
        (one, other, encoding)
        for encoding in ENCODINGS
        for one, other in combinations(labels, 2)
        if (one, encoding) in SHOWN and (other, encoding) in SHOWN
    ]
    for (one, other, encoding), difference in result.items():
        item = [row.credits[one, encoding]["total"] - row.credits[other, encoding]["total"] for row in rows()]
        margin = 1.959964 * stdev(item) / math.sqrt(len(item))
        assert difference.mean == pytest.approx(fmean(item), rel=1e-9)
        assert difference.low == pytest.approx(fmean(item) - margin, rel=1e-9)
        assert difference.high == pytest.approx(fmean(item) + margin, rel=1e-9)
        assert difference.low < difference.mean < difference.high


def test_worst_rows_are_told_lowest_first_with_their_inputs() -> None:
    inputs = {
        int(input_number): (inputs.name(row), tuple(inputs.demand[row].tolist()), tuple(inputs.supply[row].tolist()))
        for inputs in PIECES
        for row, input_number in enumerate(inputs.numbers)
    }
    simulation = said()
    for label, encoding in SHOWN:
        mine = [item for item in simulation.worst if (item.algorithm, item.encoding) == (label, encoding)]
        expected = sorted((row.credits[label, encoding]["total"], row.index) for row in rows())[:7]
        assert [item.total for item in mine] == pytest.approx([total for total, _ in expected])
        assert [item.total for item in mine] == sorted(item.total for item in mine)
        for item in mine:
            assert (item.name, item.nodes, item.endpoints) == inputs[item.row]
    assert len(simulation.worst) == 7 * len(SHOWN)


def test_curves_are_mean_totals_by_number_of_endpoints() -> None:
    """Four points from each number of endpoints to twice as many; the bound has one, above all the others."""
    points: dict[int, list[Row]] = {}
    for row in rows():
        points.setdefault(int(4 * math.log2(row.endpoints)), []).append(row)
    assert [(curve.algorithm, curve.encoding) for curve in said().plots.curves] == SHOWN
    curves = said(bounds=True).plots.curves
    assert [(curve.algorithm, curve.encoding) for curve in curves] == [
        *SHOWN,
        *((BOUND, encoding) for encoding in ENCODINGS),
    ]
    for curve in curves:
        key = curve.algorithm, curve.encoding
        for result, mine in zip(curve.points, (points[point] for point in sorted(points)), strict=True):
            totals = [55 + 45 * row.possible if curve.algorithm == BOUND else row.credits[key]["total"] for row in mine]
            assert result == pytest.approx((fmean(row.endpoints for row in mine), fmean(totals)))


def test_spreads_count_every_row_where_its_total_is() -> None:
    """In steps of a half; what is below nothing counts for the lowest."""
    spreads = said().plots.spreads
    assert [(spread.algorithm, spread.encoding) for spread in spreads] == SHOWN
    for spread in spreads:
        totals = sorted(row.credits[spread.algorithm, spread.encoding]["total"] for row in rows())
        assert sum(count for _, count in spread.bins) == len(totals)
        edges = [edge for edge, _ in spread.bins]
        assert edges == sorted(edges)
        assert spread.width == 0.5
        at = 0
        for edge, count in spread.bins:
            for total in totals[at : at + count]:
                # Totals are compared to a hundredth.
                assert edge - 0.0051 <= max(total, 0) <= edge + spread.width + 0.0051
            at += count


def test_joints_count_every_row_by_two_totals() -> None:
    joints = said().plots.joints
    assert [(joint.algorithm, joint.other, joint.encoding) for joint in joints] == [
        (difference.algorithm, difference.other, difference.encoding) for difference in said().differences
    ]
    for joint in joints:
        result = {(one, other): count for one, other, count in joint.cells}
        assert sum(result.values()) == len(rows())
        on_an_edge = 0
        for row in rows():
            pair = [row.credits[label, joint.encoding]["total"] for label in (joint.algorithm, joint.other)]
            if any(abs(total - round(total)) < 1e-6 for total in pair):
                # Its last bits decide: totals are added up in another order here.
                on_an_edge += 1
                continue
            one, other = (float(min(max(math.floor(total), 0), 99)) for total in pair)
            result[one, other] -= 1
        assert min(result.values()) >= 0
        assert sum(result.values()) == on_an_edge < len(rows()) / 2
        assert joint.width == 1


def test_of_nothing_nothing_is_said() -> None:
    inputs = Inputs(np.arange(2), np.array([[1, 1], [0, 0]]), np.array([[0, 0], [3, 4]]))
    for tally, unscored in ((Tally(), 0), (merge_tallies(EVERYTHING, tallies(EVERYTHING, [inputs])), 2)):
        simulation = summarize(EVERYTHING, tally, dataset="none", of=7, partial=True, bounds=True, shares=SHARES)
        assert (simulation.rows, simulation.of, simulation.unscored, simulation.partial) == (0, 7, unscored, True)
        assert (simulation.means, simulation.bands, simulation.quantiles, simulation.worst) == ((), (), (), ())
        assert (simulation.differences, {curve.points for curve in simulation.plots.curves}) in (
            ((), {()}),
            ((), set()),
        )
        assert not any(spread.bins for spread in simulation.plots.spreads)
