"""How a running controller adopts measured demand: the values of these keys of ``demand`` in the configuration."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite
from typing import Final

from zoneward.kube.durations import duration_between
from zoneward.kube.input_error import ConfigurationError, show

_HOUR: Final = 3_600


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptionSettings:
    """No zone's part is below ``floor`` of its share of CPU. Figures that add up to less than ``min_traffic`` are too
    few. Figures are read every ``refresh`` seconds, and count for ``max_age`` seconds.

    A Service adopts new demand where its endpoints would be overloaded otherwise, or where more than ``margin`` of all
    its traffic would stay in its zone that does not now. At most ``max_changes_per_hour`` Services do.
    """

    floor: Fraction = Fraction(1, 2)
    min_traffic: Fraction = Fraction(100)
    margin: Fraction = Fraction(3, 20)
    max_changes_per_hour: int = 20
    refresh: float = 300.0
    max_age: float = 3.0 * _HOUR


def read_adoption_setting(key: str, value: object) -> tuple[str, object]:
    """The field of `AdoptionSettings` for a key of `ADOPTION_KEYS`, and its value. Raises ConfigurationError."""
    name, read = ADOPTION_KEYS[key]
    try:
        return name, read(value)
    except ValueError as error:
        raise ConfigurationError(f"demand.{key}: {error}") from None


def _number(least: int, most: int, expected: str) -> Callable[[object], Fraction]:
    def read(value: object) -> Fraction:
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
        if not is_number or not least <= value <= most:  # type: ignore[operator]
            raise ValueError(f"expected {expected}, got {show(value)}")
        # The shortest text of a float is what the file has: 0.2 is a fifth here, not the double next to it.
        return Fraction(repr(value))

    return read


def _whole_number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 10_000:
        raise ValueError(f"expected a whole number from 1 to 10000, got {show(value)}")
    return value


ADOPTION_KEYS: Final[Mapping[str, tuple[str, Callable[[object], object]]]] = {
    "floor": ("floor", _number(0, 1, "a part from 0 to 1 (0.5: half of the share of CPU)")),
    "minTraffic": ("min_traffic", _number(0, 10**9, "a number from 0 to 1e9")),
    "margin": ("margin", _number(0, 1, "a share of all traffic from 0 to 1 (0.1 is 10 %)")),
    "maxChangesPerHour": ("max_changes_per_hour", _whole_number),
    "refresh": ("refresh", duration_between(10, _HOUR, "from 10s to 1h")),
    "maxAge": ("max_age", duration_between(60, 168 * _HOUR, "from 1m to 168h")),
}
"""The field for each key, and how it is read."""
