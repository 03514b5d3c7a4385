"""A long search for the best sets of endpoints: the opponent of ``Balanced``, with which it shares no code.

``python -m bench.set_search [SECONDS]`` writes ``bench/balanced_sample.csv`` again, with SECONDS of CPU for each
input. The search is simulated annealing over the numbers of endpoints by the zone where they are located and the set of
zones that use them, from many starts, as machine code: it tries about ten million changes a second for three zones.
"""

import sys
import time
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

MAX_OVERLOAD: Final = 0.2
_SECONDS: Final = 10.0
_STEPS: Final = (40_000, 200_000, 1_000_000)
"""Of a run; short and long ones take turns."""
_STARTS: Final = 4
"""Home, all zones, random, the best so far."""
_BEST_START: Final = 3

Sets = dict[tuple[int, int], int]
"""Endpoints by where they are located and by who uses them: a bit for each zone."""


def score_of(demand: Sequence[int], supply: Sequence[int], sets: Mapping[tuple[int, int], int]) -> float:
    """KEP-2004's score with hints (docs/lab.md § What is scored). Raises ValueError for sets that are not valid."""
    zones = range(len(demand))
    for located in zones:
        if sum(count for (zone, _), count in sets.items() if zone == located) != supply[located]:
            raise ValueError(f"not {supply[located]} endpoints in zone {located}: {sets}")
    total = sum(supply)
    size = [sum(count for (_, users), count in sets.items() if users >> zone & 1) for zone in zones]
    # The share of a zone's traffic that each of its endpoints gets.
    part = [demand[zone] / sum(demand) / size[zone] if demand[zone] else 0.0 for zone in zones]
    worst = mean = in_zone = 0.0
    for (located, users), count in sets.items():
        if not count:
            continue
        if not users:
            raise ValueError(f"nobody uses an endpoint of zone {located}: {sets}")
        overload = total * sum(part[zone] for zone in zones if users >> zone & 1) - 1
        worst = max(worst, overload)
        mean += abs(overload) * count / total
        in_zone += part[located] * count if users >> located & 1 else 0.0
    if worst > MAX_OVERLOAD + 1e-6:
        raise ValueError(f"an endpoint is {worst} above fair: {sets}")
    return 45 * in_zone + 20 * (1 - worst) + 20 * (1 - mean) + 15


def search(demand: Sequence[int], supply: Sequence[int], *, seconds: float, seed: int) -> tuple[float, Sets]:
    """The best score that is found in so much CPU time, with its sets. Every zone has demand."""
    run = _compiled()
    shares = np.array(demand, np.float64) / sum(demand)
    located = np.array(supply, np.int64)
    best = np.zeros((len(demand), 1 << len(demand)), np.int64)
    best[:, -1] = located
    score = -np.inf
    until = time.process_time() + seconds
    count = 0
    while time.process_time() < until:
        steps, start = _STEPS[count // _STARTS % len(_STEPS)], count % _STARTS
        hot = 0.2 if start == _BEST_START else 3.0
        result, sets = run(shares, located, best, start, steps, hot, seed + count)
        if result > score:
            score, best = result, sets
        count += 1
    sets_found = {(int(zone), int(users)): int(best[zone, users]) for zone, users in np.argwhere(best)}
    return score_of(demand, supply, sets_found), sets_found


@cache
def _compiled() -> Any:
    """`_anneal` as machine code."""
    from numba import njit

    compiled = njit(error_model="numpy")(_anneal)
    supply = np.ones(2, np.int64)
    compiled(np.full(2, 0.5), supply, np.ones((2, 4), np.int64), 0, 1, 1.0, 1)
    return compiled


def _anneal(
    shares: NDArray[np.float64],
    supply: NDArray[np.int64],
    best_before: NDArray[np.int64],
    start: int,
    steps: int,
    hot: float,
    seed: int,
) -> tuple[float, NDArray[np.int64]]:
    """One run, from the temperature ``hot`` (points of the score) to nearly zero.

    A change moves some endpoints from one set of zones to another, and may exchange them with those of another zone.
    """
    np.random.seed(seed)
    zones = len(shares)
    sets = 1 << zones
    total = supply.sum()
    counts = np.zeros((zones, sets), np.int64)
    for zone in range(zones):
        if start == 0:
            counts[zone, 1 << zone] = supply[zone]
        elif start == 1:
            counts[zone, sets - 1] = supply[zone]
        elif start == 2:
            for _ in range(supply[zone]):
                counts[zone, np.random.randint(1, sets)] += 1
        else:
            counts[zone] = best_before[zone]
    # Cells with endpoints, to draw from, and where each is in the list.
    cells = np.zeros(zones * sets, np.int64)
    position = np.full(zones * sets, -1, np.int64)
    filled = 0
    count = np.zeros(sets, np.int64)
    size = np.zeros(zones, np.int64)
    home = np.zeros(zones, np.int64)
    for zone in range(zones):
        for users in range(sets):
            if counts[zone, users] > 0:
                cells[filled] = zone * sets + users
                position[zone * sets + users] = filled
                filled += 1
                count[users] += counts[zone, users]
                for item in range(zones):
                    if users >> item & 1:
                        size[item] += counts[zone, users]
                if users >> zone & 1:
                    home[zone] += counts[zone, users]
    lowest = np.zeros(sets, np.int64)
    for users in range(1, sets):
        while not users >> lowest[users] & 1:
            lowest[users] += 1
    load = np.zeros(sets)
    part = np.zeros(zones)
    moves = np.zeros((2, 4), np.int64)
    best = counts.copy()
    best_score = -1e9
    now = -1e9
    temperature = hot
    cooling = (1e-4 / hot) ** (1.0 / steps)
    for step in range(steps + 1):
        made = 0
        if step > 0:
            temperature *= cooling
            cell = cells[np.random.randint(filled)]
            zone, users = cell // sets, cell % sets
            kind = np.random.random()
            if kind < 0.5:
                other = users ^ (1 << np.random.randint(zones))
            elif kind < 0.75:
                other = users ^ (1 << np.random.randint(zones)) ^ (1 << np.random.randint(zones))
            elif kind < 0.8:
                other = 1 << zone
            else:
                other = cells[np.random.randint(filled)] % sets
            if other in (0, users):
                continue
            many = 1
            if np.random.random() < 0.4:
                many = 1 + np.random.randint(1 << np.random.randint(12))
            many = min(many, counts[zone, users])
            if np.random.random() < 0.3:
                back = np.random.randint(zones)
                if back != zone and counts[back, other] > 0:
                    # An exchange: both sets stay as large as they are.
                    many = min(many, counts[back, other])
                    moves[made] = back, other, users, many
                    made += 1
            moves[made] = zone, users, other, many
            made += 1
        for move in range(made):
            zone, users, other, many = moves[move]
            counts[zone, users] -= many
            counts[zone, other] += many
            count[users] -= many
            count[other] += many
            for index in range(zones):
                size[index] += many * ((other >> index & 1) - (users >> index & 1))
            home[zone] += many * ((other >> zone & 1) - (users >> zone & 1))
        score = 0.0
        for zone in range(zones):
            if size[zone] == 0:
                score = -1e9
            else:
                part[zone] = shares[zone] / size[zone]
                score += 45 * part[zone] * home[zone]
        worst = 0.0
        mean = 0.0
        for users in range(1, sets):
            load[users] = load[users & (users - 1)] + part[lowest[users]]
            if count[users] > 0:
                overload = total * load[users] - 1
                worst = max(worst, overload)
                mean += abs(overload) * count[users]
        score += 55 - 20 * worst - 20 * mean / total
        energy = score if worst <= 0.2 + 1e-9 else score - 2 - 300 * (worst - 0.2)
        if step == 0 or energy >= now or np.random.random() < np.exp((energy - now) / temperature):
            now = energy
            for move in range(made):
                for which in range(2):
                    zone = moves[move, 0]
                    cell = zone * sets + moves[move, 1 + which]
                    if counts[zone, moves[move, 1 + which]] > 0 and position[cell] < 0:
                        cells[filled] = cell
                        position[cell] = filled
                        filled += 1
                    elif counts[zone, moves[move, 1 + which]] == 0 and position[cell] >= 0:
                        filled -= 1
                        last = cells[filled]
                        cells[position[cell]] = last
                        position[last] = position[cell]
                        position[cell] = -1
            if score > best_score + 1e-12 and worst <= 0.2 + 1e-9:
                best_score = score
                best[:] = counts
            continue
        for back in range(made):
            zone, users, other, many = moves[made - 1 - back]
            counts[zone, users] += many
            counts[zone, other] -= many
            count[users] += many
            count[other] -= many
            for item in range(zones):
                size[item] -= many * ((other >> item & 1) - (users >> item & 1))
            home[zone] -= many * ((other >> zone & 1) - (users >> zone & 1))
    return best_score, best


def main(arguments: Sequence[str]) -> None:
    """Write the sample again."""
    from bench.balanced_sample import KeptResult, draw_cases, write_results

    seconds = float(arguments[0]) if arguments else _SECONDS
    write_results(
        KeptResult(case, seconds, search(case.demand, case.supply, seconds=seconds, seed=count)[0])
        for count, case in enumerate(draw_cases())
    )


if __name__ == "__main__":
    main(sys.argv[1:])
