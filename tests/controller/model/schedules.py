"""Schedules: what happens in a cluster, one thing after the other, and how well everything works meanwhile.

Each is made of a few bytes, zeros being nothing, so that one that fails shrinks to the steps that matter.
"""

from dataclasses import dataclass, replace
from typing import Final

from hypothesis import strategies as st
from tests.controller.model.network import CALM, Weather

STEPS: Final = 16
PAUSES: Final = (0, 0, 0, 0.001, 0.003, 0.005, 0.01, 0.01, 0.05, 0.05, 0.2, 0.5, 1, 2, 4, 10)
"""Seconds. Writes take a few thousandths."""
WEATHERS: Final = (
    CALM,
    Weather(delay=0.02),
    Weather(delay=0.005, hang=0.03, lost=0.02, unanswered=0.03, too_many=0.03, fault_before=0.02, fault_after=0.02),
    Weather(delay=0.3),
)
ROUGH: Final = (
    Weather(unanswered=0.7),
    Weather(too_many=0.7),
    Weather(hang=0.7),
    Weather(fault_before=0.5, fault_after=0.4),
    Weather(lost=0.7),
    Weather(delay=2.0),
)
LAGS: Final[tuple[dict[str, float], ...]] = (
    {},
    {"endpointslices": 0.05},
    {"pods": 0.05},
    {"endpointslices": 0.5, "pods": 0.01},
    {"pods": 0.5, "endpointslices": 0.01},
    {"nodes": 1.0, "pods": 0.05},
    {"services": 1.0},
    {"services": 0.1, "nodes": 0.1, "pods": 0.1, "endpointslices": 0.1},
)
_BY_WEIGHT: Final = {
    6: "flip ask meddle meddle_before_next_write stall",
    4: "flip_some pod pod_gone node replace_service rough cut",
    3: "scale_up scale_down end readdress relabel replace_pod service ports kill",
    2: "node_gone node_ready service_gone select families break_watch lose_history stop",
    1: "finish publish label_service",
}
_HEAD: Final = st.binary(min_size=8, max_size=8)
_STEP: Final = st.binary(min_size=4, max_size=4)
NAMES: Final = ("nothing", *(name for weight, names in _BY_WEIGHT.items() for name in names.split() * weight))
"""Nothing is the first: what fails shrinks to it."""


@dataclass(frozen=True, slots=True)
class Step:
    """``name`` says what of `tests.controller.model.world.World`, with two numbers; then ``pause`` seconds pass."""

    name: str
    a: int
    b: int
    pause: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """``begins_settled``: all is written before anything happens."""

    seed: int
    replicas: int
    elects: bool
    most: int
    """Endpoints in a slice."""
    pods: int
    weather: int
    lags: int
    period: float
    collects_garbage: bool
    takes_over: bool
    """Whether there are slices of the built-in controller at the beginning."""
    begins_settled: bool
    quiet: float
    """Seconds for which nothing may be written afterwards."""
    steps: tuple[Step, ...]


def made(head: bytes, steps: tuple[bytes, ...]) -> Schedule:
    """Of eight bytes, and of four for each step."""
    replicas, most, pods, weather, lags, others, *seed = head
    elects = replicas % 8 > 3
    return Schedule(
        seed=int.from_bytes(seed),
        replicas=(1, 1, 1, 1, 1, 2, 2, 3)[replicas % 8],
        elects=elects,
        most=(3, 2, 4, 5)[most % 4],
        pods=(4, 3, 7, 10)[pods % 4],
        weather=(0, 0, 0, 0, 1, 2, 2, 3)[weather % 8],
        lags=lags % len(LAGS),
        period=(0.0, 0.0, 0.0, 0.5)[others % 4],
        collects_garbage=others // 8 % 4 == 3,
        takes_over=others // 4 % 2 == 1,
        begins_settled=others // 32 % 4 != 3,
        # Leases are renewed all the time, which takes a while also where time does not pass.
        quiet=10.0 if elects else 3600.0 if seed[0] % 32 == 31 else 60.0,
        steps=tuple(step for encoded in steps if (step := _step(encoded)).name != "nothing"),
    )


def _step(of: bytes) -> Step:
    name, a, b, pause = of
    return Step(NAMES[name % len(NAMES)], a, b, PAUSES[pause % len(PAUSES)])


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    """Any schedule of `STEPS` steps or fewer."""
    return made(draw(_HEAD), tuple(draw(_STEP) for _ in range(STEPS)))


def calm(*steps: Step) -> Schedule:
    """One replica, two Services with 4 Pods in three zones, and everything works."""
    return replace(made(bytes(8), ()), steps=steps)
