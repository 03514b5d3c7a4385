"""What traffic between zones costs: a price for each GB (10^9 bytes), by the pair of zones or regions.

There are no built-in prices: providers change them, and many pay others than those on the list.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, Literal, get_args

from zoneward.kube.formats import label_value_problems
from zoneward.kube.input_error import ConfigurationError, show
from zoneward.kube.near_names import did_you_mean
from zoneward.routing.rules import listed

SECTION: Final = "prices"
PRICE_EXPECTED: Final = "a price and its currency, such as 0.01USD"
BYTES_IN_GB: Final = 10**9
Charge = Literal["one", "both"]
Pairs = tuple[tuple[str, str, Fraction], ...]
_PRICE: Final = re.compile(r"(?P<sign>[-+]?)(?P<amount>[0-9]{1,9}(\.[0-9]{1,9})?) ?(?P<currency>[A-Z]{3})?")
_CHARGE_EXPECTED: Final = "one (where it leaves its zone) or both (there, and where it arrives)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Prices of a GB that leaves its zone. ``currency`` is a code of ISO 4217, empty where there are no prices.

    The pair of ``zones`` wins over the pair of ``regions``, and that over ``per_gb``; pairs have (from, to, price).
    ``charge``: whether a GB is charged at ``one`` end, where it leaves, or at ``both``.
    """

    currency: str = ""
    per_gb: Fraction = Fraction(0)
    zones: Pairs = ()
    regions: Pairs = ()
    charge: Charge = "one"

    def __bool__(self) -> bool:
        return bool(self.currency)

    def check_places(self, zones: Iterable[str], regions: Iterable[str]) -> None:
        """Raises ConfigurationError for the price of a zone or a region that the cluster does not have."""
        for what, pairs, known in (
            ("zones", self.zones, sorted(set(zones))),
            ("regions", self.regions, sorted(set(regions))),
        ):
            for place in sorted({each for start, end, _ in pairs for each in (start, end)}):
                if place not in known:
                    expected = f"expected {what} of Nodes ({listed(tuple(known)) or 'there are none'}), got {place!r}"
                    raise ConfigurationError(f"{SECTION}.{what}: {expected}{did_you_mean(place, known)}")


class PairPrices:
    """What a GB costs from one zone to another, at all ends that are charged. ``regions``: of zones, where known."""

    def __init__(self, prices: Prices, regions: Mapping[str, str]) -> None:
        ends = 2 if prices.charge == "both" else 1
        self._zones = {(start, end): float(price * ends) for start, end, price in prices.zones}
        self._regions = {(start, end): float(price * ends) for start, end, price in prices.regions}
        self._per_gb = float(prices.per_gb * ends)
        self._region_of = regions

    def of(self, start: str, end: str) -> float:
        """Nothing within a zone."""
        if start == end:
            return 0.0
        price = self._zones.get((start, end))
        if price is None:
            between = self._region_of.get(start, ""), self._region_of.get(end, "")
            price = self._regions.get(between, self._per_gb)
        return price


def with_price(prices: Prices, per_gb: str | None, charge: Charge | None) -> Prices:
    """The same with what options say. Raises ConfigurationError, without the name of the option."""
    if per_gb is not None:
        price, currency = parse_price(per_gb)
        if prices and prices.currency != currency:
            raise ConfigurationError(f"expected a price in {prices.currency}, as in the configuration, got {per_gb!r}")
        prices = replace(prices, per_gb=price, currency=currency)
    return prices if charge is None else replace(prices, charge=charge)


def parse_price(text: str) -> tuple[Fraction, str]:
    """Price and currency. Raises ConfigurationError, without the name of what it is."""
    found = _PRICE.fullmatch(text)
    if found is None:
        raise ConfigurationError(f"expected {PRICE_EXPECTED}, got {show(text)}")
    if found["currency"] is None:
        raise ConfigurationError(f"expected {PRICE_EXPECTED}, got {show(text)} without a currency")
    if found["sign"] == "-":
        raise ConfigurationError(f"expected a price of at least 0, got {show(text)}")
    return Fraction(found["amount"]), found["currency"]


# --- the section of a configuration -----------------------------------------------------------------------------------


def read_prices(section: object) -> Prices:
    """Read the section ``prices`` of a ZonewardConfiguration. Raises ConfigurationError with the path of the field."""
    values = _map(section, SECTION)
    for key in values:
        if key not in _KEYS:
            raise ConfigurationError(f"{SECTION}.{key}: expected one of {', '.join(_KEYS)}, got an unknown key")
    currencies: dict[str, str] = {}
    per_gb = Fraction(0)
    if values.get("perGB") is not None:
        per_gb = _price(values["perGB"], f"{SECTION}.perGB", currencies)
    charge: Charge = values.get("charge") or "one"
    if charge not in get_args(Charge):
        raise ConfigurationError(f"{SECTION}.charge: expected {_CHARGE_EXPECTED}, got {show(charge)}")
    zones = _pairs(values.get("zones"), f"{SECTION}.zones", currencies)
    for start, end, _ in zones:
        if start == end:
            raise ConfigurationError(f"{SECTION}.zones.{start}.{end}: expected two zones: nothing leaves one")
    regions = _pairs(values.get("regions"), f"{SECTION}.regions", currencies)
    return Prices(currency=next(iter(currencies), ""), per_gb=per_gb, zones=zones, regions=regions, charge=charge)


_KEYS: Final = ("perGB", "charge", "zones", "regions")


def _pairs(value: object, path: str, currencies: dict[str, str]) -> Pairs:
    """A pair that is given in one direction has its price in both."""
    given = {
        (start, end): _price(price, f"{path}.{start}.{end}", currencies)
        for start, prices in _places(value, path)
        for end, price in _places(prices, f"{path}.{start}")
    }
    both = {(end, start): price for (start, end), price in given.items()} | given
    return tuple((start, end, price) for (start, end), price in sorted(both.items()))


def _places(value: object, path: str) -> list[tuple[str, Any]]:
    section = _map(value, path)
    for place in section:
        if not isinstance(place, str) or not place or any(label_value_problems(place)):
            raise ConfigurationError(f"{path}: expected names of {path.split('.')[1]}, got {show(place)}")
    return list(section.items())


def _price(value: object, path: str, currencies: dict[str, str]) -> Fraction:
    """``currencies``: the first of all prices, with the path where it stands."""
    try:
        price, currency = parse_price(value if isinstance(value, str) else repr(value))
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from error
    if currencies and currency not in currencies:
        first, place = next(iter(currencies.items()))
        raise ConfigurationError(f"{path}: expected a price in {first}, as in {place}, got {show(value)}")
    currencies.setdefault(currency, path)
    return price


def _map(value: object, path: str) -> Mapping[Any, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{path}: expected a map, got {show(value)}")
    return value
