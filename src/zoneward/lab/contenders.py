"""What takes part in a simulation: a rule of the decision core with its parameters, under a label of its own."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Final

from zoneward.kube.input_error import InputError, show
from zoneward.routing.algorithms.heuristics import HEURISTICS, LOCAL_KEP_TOOL, Heuristic
from zoneward.routing.algorithms.signature import AllocateFunction
from zoneward.routing.request.what_if import NO_APPROACH

STARTING: Final = "startingThreshold"
OVERLOAD: Final = "overloadThreshold"
PER_SLICE: Final = "maxEndpointsPerSlice"
PARAMETERS: Final = (STARTING, OVERLOAD, PER_SLICE)
"""Everything that can be set after an algorithm's name, by the names of the configuration."""

_MOST: Final = {STARTING: Fraction(1000), OVERLOAD: Fraction(1000), PER_SLICE: Fraction(1000)}
_NUMBER: Final = re.compile(r"[0-9]{1,8}(\.[0-9]{0,8}|/[0-9]{1,8})?|\.[0-9]{1,8}")
_CLUSTER_WIDE: Final = "cluster-wide"
_RANDOM: Final = "random"
_DEFAULTS: Final[Mapping[str, Mapping[str, Fraction]]] = {
    "local": {STARTING: Fraction(3), OVERLOAD: Fraction(1, 2)},
    LOCAL_KEP_TOOL.name: {STARTING: Fraction(3), OVERLOAD: Fraction(1, 2)},
    "local-shared": {STARTING: Fraction(1), OVERLOAD: Fraction(1, 2)},
    "local-weighted": {STARTING: Fraction(0)},
    "local-opt": {STARTING: Fraction(0)},
    "ProportionalZoneCPU": {STARTING: Fraction(1), OVERLOAD: Fraction(1, 5)},
}
"""Those of the proposals, where an algorithm has any (KEP-2004 § Auto Approach, KEP-2433 § Overload)."""
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
ALGORITHMS: Final = (
    *("random", "local", LOCAL_KEP_TOOL.name, "local-shared", "local-weighted", "local-opt"),
    *("ProportionalZoneCPU", "PreferSameZone", _CLUSTER_WIDE),
)
"""What ``--algorithm all`` means, in the proposal's order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A rule with its parameters.

    ``starting`` is in endpoints a zone: with fewer, all zones use all endpoints, and the rule is not asked.
    ``overload`` is the threshold in force, a share above fair. ``weighs``: its groups have weights, which hints can't
    say.
    Machine code is kept under ``key``; without one it is not kept.
    """

    label: str
    rule: AllocateFunction
    key: str
    starting: Fraction = Fraction(0)
    overload: Fraction = Fraction(1, 2)
    per_slice: int = 100
    weighs: bool = False
    plain: bool = field(default=False)
    """Runs as plain Python, because numba can't compile it."""

    @property
    def parameters(self) -> tuple[int, int, int, int]:
        """As a rule takes them: the threshold in force, then that to start with, each as numerator and denominator."""
        return (self.overload.numerator, self.overload.denominator) * 2


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRule:
    """A rule that is not in the registry: its name, and what `Contender` needs to know."""

    name: str
    rule: AllocateFunction
    key: str
    plain: bool = False


def contenders_for(
    written: Iterable[str], *, sweeps: Iterable[str] = (), own: OwnRule | None = None
) -> tuple[Contender, ...]:
    """The contenders that ``-a`` and ``--sweep`` ask for; raises `InputError`.

    ``written`` are ``name``, ``name:parameter=value,parameter=value``, several with commas between, or ``all``. A sweep
    is ``parameter=value,value``; each multiplies the contenders that have the parameter.
    """
    asked = [each for one in written for each in _split(one)]
    if not asked and own is not None:
        asked = [own.name]
    expanded: list[str] = []
    for each in asked:
        expanded.extend(ALGORITHMS if each == "all" else (each,))
    grid: dict[str, list[Fraction]] = {}
    for each in sweeps:
        parameter, values = _sweep(each)
        grid.setdefault(parameter, []).extend(values)
    found: dict[str, Contender] = {}
    swept: set[str] = set()
    for each in expanded:
        name, given = _named(each, own)
        known = _parameters_of(name, own)
        mine = [(parameter, values) for parameter, values in grid.items() if parameter in known]
        swept.update(parameter for parameter, _ in mine)
        for values in product(*(values for _, values in mine)):
            more = dict(zip((parameter for parameter, _ in mine), values, strict=True))
            contender = _contender(name, {**given, **more}, own)
            found.setdefault(contender.label, contender)
    for parameter in grid:
        if parameter not in swept:
            raise InputError("--sweep", f"expected a parameter that one of the algorithms has, got {show(parameter)}")
    return tuple(found.values())


def _split(written: str) -> list[str]:
    """``a:x=1,y=2,b`` is ``a:x=1,y=2`` and ``b``: what holds ``=`` belongs to the name before it."""
    parts: list[str] = []
    for part in written.split(","):
        if "=" in part and ":" not in part and parts and ":" in parts[-1]:
            parts[-1] += f",{part}"
        else:
            parts.append(part.strip())
    return parts


def _named(written: str, own: OwnRule | None) -> tuple[str, dict[str, Fraction]]:
    name, _, rest = written.partition(":")
    if own is None or name != own.name:
        name = _ALIASES.get(name, name)
        if name not in ALGORITHMS:
            raise InputError("--algorithm", f"expected one of {', '.join(('all', *ALGORITHMS))}, got {show(name)}")
    given = {}
    for pair in filter(None, rest.split(",")):
        parameter, equals, value = pair.partition("=")
        if not equals or parameter not in _parameters_of(name, own):
            known = ", ".join(f"{each}=NUMBER" for each in _parameters_of(name, own))
            raise InputError("--algorithm", name, f"expected {known}, got {show(pair)}")
        if parameter in given:
            raise InputError("--algorithm", name, f"expected {parameter} once, got it twice")
        given[parameter] = _number("--algorithm", parameter, value)
    return name, given


def _sweep(written: str) -> tuple[str, tuple[Fraction, ...]]:
    parameter, equals, values = written.partition("=")
    if not equals or parameter not in PARAMETERS:
        known = ", ".join(f"{each}=NUMBER[,NUMBER...]" for each in PARAMETERS)
        raise InputError("--sweep", f"expected {known}, got {show(written)}")
    return parameter, tuple(_number("--sweep", parameter, value) for value in values.split(","))


def _number(option: str, parameter: str, written: str) -> Fraction:
    most = _MOST[parameter]
    try:
        number = Fraction(written) if _NUMBER.fullmatch(written) else None
    except ZeroDivisionError:
        number = None
    whole = parameter == PER_SLICE
    if number is None or not int(whole) <= number <= most or (whole and number.denominator > 1):
        kind = f"a whole number from 1 to {most}" if whole else f"a number from 0 to {most}"
        raise InputError(option, parameter, f"expected {kind}, got {show(written)}")
    return number


def _parameters_of(name: str, own: OwnRule | None) -> Sequence[str]:
    if own is not None and name == own.name:
        return PARAMETERS
    return (*_DEFAULTS.get(name, ()), PER_SLICE)


def _contender(name: str, given: Mapping[str, Fraction], own: OwnRule | None) -> Contender:
    label = name
    if given:
        label += ":" + ",".join(f"{key}={_plainly(given[key])}" for key in PARAMETERS if key in given)
    if own is not None and name == own.name:
        settings: Mapping[str, Fraction] = given
        rule, key, weighs, plain = own.rule, own.key, False, own.plain
    else:
        settings = {**_DEFAULTS.get(name, {}), **given}
        heuristic = _HEURISTICS[_RANDOM if name == _CLUSTER_WIDE else name]
        rule, key, weighs, plain = heuristic.allocate, heuristic.allocate.__name__, heuristic.weighs, False
    return Contender(
        label=label,
        rule=rule,
        key=key,
        starting=settings.get(STARTING, Fraction(0)),
        overload=settings.get(OVERLOAD, Fraction(1, 2)),
        per_slice=int(settings.get(PER_SLICE, 100)),
        weighs=weighs,
        plain=plain,
    )


def _plainly(number: Fraction) -> str:
    """As short as tells it from every other number."""
    return str(float(number)).removesuffix(".0")
