"""The algorithms that take part in a simulation, each with its parameters: what ``-a`` and a sweep ask for.

A subsetting algorithm of the registry needs no line in this file, unless it has parameters.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Final

from zoneward.kube.input_error import InputError, show
from zoneward.routing.algorithms.heuristics import (
    BALANCED,
    HEURISTICS,
    LOCAL_KEP_TOOL,
    SUBSETTING_ALGORITHMS,
    Heuristic,
)
from zoneward.routing.algorithms.signature import AllocateFunction
from zoneward.routing.configuration import ZoneCosts, cost_table
from zoneward.routing.what_if import NO_APPROACH

STARTING: Final = "startingThreshold"
OVERLOAD: Final = "overloadThreshold"
OVERLOAD_LIMIT: Final = "maxOverload"
PER_SLICE: Final = "maxEndpointsPerSlice"
PARAMETERS: Final = (STARTING, OVERLOAD, OVERLOAD_LIMIT, PER_SLICE)
"""The parameters of algorithms, with the names of the configuration."""

_CUSTOM_PARAMETERS: Final = (STARTING, OVERLOAD, PER_SLICE)
_MOST: Final = dict.fromkeys(PARAMETERS, 1000)
_NUMBER: Final = re.compile(r"[0-9]{1,8}(\.[0-9]{0,8}|/[0-9]{1,8})?|\.[0-9]{1,8}")
_SCORE: Final = 0
"""The objective that ``Balanced`` maximizes here."""
_CLUSTER_WIDE: Final = "cluster-wide"
_RANDOM: Final = "random"
_DEFAULTS: Final[Mapping[str, Mapping[str, Fraction]]] = {
    "local": {STARTING: Fraction(3), OVERLOAD: Fraction(1, 2)},
    LOCAL_KEP_TOOL.name: {STARTING: Fraction(3), OVERLOAD: Fraction(1, 2)},
    "local-shared": {STARTING: Fraction(1), OVERLOAD: Fraction(1, 2)},
    "local-weighted": {STARTING: Fraction(0)},
    "local-opt": {STARTING: Fraction(0)},
    "ProportionalZoneCPU": {STARTING: Fraction(1), OVERLOAD: Fraction(1, 5)},
    BALANCED.name: {OVERLOAD_LIMIT: Fraction(1, 5)},
}
"""Those of the proposals (KEP-2004 § Auto Approach, KEP-2433 § Overload), and that of `Balanced`."""
_ALIASES: Final = {
    "Original": _RANDOM,
    "Local": LOCAL_KEP_TOOL.name,
    "LocalShared": "local-shared",
    "LocalWeighted": "local-weighted",
    "LocalOpt": "local-opt",
    NO_APPROACH: _CLUSTER_WIDE,
}
"""The names of the proposal's tool, and that of `compare`."""
_HEURISTICS: Final[Mapping[str, Heuristic]] = {**HEURISTICS, LOCAL_KEP_TOOL.name: LOCAL_KEP_TOOL}
_FIRST: Final = ("random", "local", LOCAL_KEP_TOOL.name)
ALGORITHMS: Final = (
    *_FIRST,
    *(name for name in SUBSETTING_ALGORITHMS if name not in _FIRST),
    *("ProportionalZoneCPU", BALANCED.name, "PreferSameZone", _CLUSTER_WIDE),
)
"""What ``--algorithm all`` means, in the proposal's order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """An algorithm with its parameters, under a label that no other contender has.

    ``starting_threshold`` is in endpoints a zone: with fewer, all zones use all endpoints, and ``rule`` is not called.
    ``overload_threshold`` is a share above fair. ``weighs``: its groups have weights, which hints can't express.
    ``balanced``: it is ``Balanced``, which takes costs between zones, and which Zoneward's proxy replaces with weights
    of zones.
    Machine code is cached under ``key``, if it has one. ``interpreted``: numba can't compile it, so that it runs as
    plain Python.
    """

    label: str
    rule: AllocateFunction
    key: str
    starting_threshold: Fraction = Fraction(0)
    overload_threshold: Fraction = Fraction(1, 2)
    max_endpoints_per_slice: int = 100
    weighs: bool = False
    balanced: bool = False
    interpreted: bool = False

    def parameters_for(self, zones: int) -> tuple[int, ...]:
        """As rules take them: the threshold to keep and that to start, each as numerator and denominator.

        Those of ``Balanced`` also have its objective, the score, and the costs between zones of one region.
        """
        thresholds = (self.overload_threshold.numerator, self.overload_threshold.denominator) * 2
        if not self.balanced:
            return thresholds
        return (*thresholds, _SCORE, *cost_table(ZoneCosts(), [str(zone) for zone in range(zones)], {}))


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomAlgorithm:
    """A custom algorithm, which is not in the registry: what `Contender` needs to know."""

    name: str
    rule: AllocateFunction
    interpreted: bool = False


def parse_contenders(
    written: Iterable[str],
    *,
    sweep: Mapping[str, Sequence[float | str]] | None = None,
    own: CustomAlgorithm | None = None,
) -> tuple[Contender, ...]:
    """The contenders of ``-a`` and ``sweep``; raises `InputError`.

    ``written`` are ``name``, ``name:parameter=value,parameter=value``, several with commas between, or ``all``. A sweep
    multiplies the contenders that have the parameter by its values.
    """
    names = [name for names in written for name in _split(names)]
    if not names and own is not None:
        names = [own.name]
    expanded = [name for written_name in names for name in (ALGORITHMS if written_name == "all" else (written_name,))]
    grid = _parse_sweep(sweep or {})
    contenders: dict[str, Contender] = {}
    swept: set[str] = set()
    for written_name in expanded:
        name, given = _parse_algorithm(written_name, own)
        known = _parameters(name)
        own_grid = {parameter: values for parameter, values in grid.items() if parameter in known}
        swept.update(own_grid)
        for values in product(*own_grid.values()):
            contender = _make_contender(name, {**given, **dict(zip(own_grid, values, strict=True))}, own)
            contenders.setdefault(contender.label, contender)
    for parameter in grid:
        if parameter not in swept:
            raise InputError("sweep", f"expected a parameter that one of the algorithms has, got {show(parameter)}")
    return tuple(contenders.values())


def _split(written: str) -> list[str]:
    """``a:x=1,y=2,b`` is ``a:x=1,y=2`` and ``b``: what holds ``=`` belongs to the name before it."""
    parts: list[str] = []
    for part in written.split(","):
        if "=" in part and ":" not in part and parts and ":" in parts[-1]:
            parts[-1] += f",{part}"
        else:
            parts.append(part.strip())
    return parts


def _parse_algorithm(written: str, own: CustomAlgorithm | None) -> tuple[str, dict[str, Fraction]]:
    name, _, rest = written.partition(":")
    if own is None or name != own.name:
        name = _ALIASES.get(name, name)
        if name not in ALGORITHMS:
            raise InputError("--algorithm", f"expected one of {', '.join(('all', *ALGORITHMS))}, got {show(name)}")
    given = {}
    for pair in filter(None, rest.split(",")):
        parameter, equals, value = pair.partition("=")
        if not equals or parameter not in _parameters(name):
            known = ", ".join(f"{parameter}=NUMBER" for parameter in _parameters(name))
            raise InputError("--algorithm", name, f"expected {known}, got {show(pair)}")
        if parameter in given:
            raise InputError("--algorithm", name, f"expected {parameter} once, got it twice")
        given[parameter] = _parse_number("--algorithm", parameter, value)
    return name, given


def _parse_sweep(sweep: Mapping[str, Sequence[float | str]]) -> dict[str, tuple[Fraction, ...]]:
    for parameter, values in sweep.items():
        if parameter not in PARAMETERS:
            raise InputError("sweep", f"expected {', '.join(PARAMETERS)}, got {show(parameter)}")
        if not values:
            raise InputError("sweep", parameter, "expected a value or more, got none")
    return {
        parameter: tuple(_parse_number("sweep", parameter, str(value)) for value in values)
        for parameter, values in sweep.items()
    }


def _parse_number(option: str, parameter: str, written: str) -> Fraction:
    most = _MOST[parameter]
    try:
        value = Fraction(written) if _NUMBER.fullmatch(written) else None
    except ZeroDivisionError:
        value = None
    whole = parameter == PER_SLICE
    if value is None or not int(whole) <= value <= most or (whole and value.denominator > 1):
        kind = f"a whole number from 1 to {most}" if whole else f"a number from 0 to {most}"
        raise InputError(option, parameter, f"expected {kind}, got {show(written)}")
    return value


def _parameters(name: str) -> Sequence[str]:
    return (*_DEFAULTS.get(name, ()), PER_SLICE) if name in ALGORITHMS else _CUSTOM_PARAMETERS


def _make_contender(name: str, given: Mapping[str, Fraction], own: CustomAlgorithm | None) -> Contender:
    label = name
    if given:
        label += ":" + ",".join(f"{key}={_format_number(given[key])}" for key in PARAMETERS if key in given)
    if own is not None and name == own.name:
        contender = Contender(label=label, rule=own.rule, key="", interpreted=own.interpreted)
    else:
        heuristic = _HEURISTICS[_RANDOM if name == _CLUSTER_WIDE else name]
        rule, is_balanced = heuristic.allocate, name == BALANCED.name
        contender = Contender(label=label, rule=rule, key=rule.__name__, weighs=heuristic.weighs, balanced=is_balanced)
    settings = {**_DEFAULTS.get(name, {}), **given}
    return replace(
        contender,
        starting_threshold=settings.get(STARTING, contender.starting_threshold),
        overload_threshold=settings.get(OVERLOAD, settings.get(OVERLOAD_LIMIT, contender.overload_threshold)),
        max_endpoints_per_slice=int(settings.get(PER_SLICE, contender.max_endpoints_per_slice)),
    )


def _format_number(value: Fraction) -> str:
    """The shortest text that no other number has."""
    return str(float(value)).removesuffix(".0")
