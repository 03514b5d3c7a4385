"""What traffic between zones costs: a price for each GB (10^9 bytes), by the pair of zones or regions.

There are no built-in prices: providers change them, and many pay others than those on the list.
"""

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple

from msgspec import Meta, field
from msgspec.structs import replace

from zoneward.kube.input_error import ConfigurationError, did_you_mean, show
from zoneward.kube.settings import Settings, setting_type, zone_pairs
from zoneward.routing.phrases import listed

SECTION: Final = "prices"
PRICE_EXPECTED: Final = "a price and its currency, such as 0.01USD"
BYTES_IN_GB: Final = 10**9
Charge = Literal["one", "both"]
_PRICE: Final = re.compile(r"(?P<sign>[-+]?)(?P<amount>[0-9]{1,9}(\.[0-9]{1,9})?) ?(?P<currency>[A-Z]{3})?")
_CHARGE_EXPECTED: Final = "one (where it leaves its zone) or both (there, and where it arrives)"


class Price(NamedTuple):
    """``currency`` is a code of ISO 4217."""

    amount: Fraction
    currency: str


Pairs = tuple[tuple[str, str, Price], ...]


def format_amount(amount: Fraction) -> str:
    """With all digits that a price has: ``0.01``, ``1,234.5``."""
    return f"{float(amount):,.9f}".rstrip("0").rstrip(".")


def parse_price(text: str) -> Price:
    """Raises ConfigurationError, without the name of the field."""
    match = _PRICE.fullmatch(text)
    if match is None:
        raise ConfigurationError(f"expected {PRICE_EXPECTED}, got {show(text)}")
    if match["currency"] is None:
        raise ConfigurationError(f"expected {PRICE_EXPECTED}, got {show(text)} without a currency")
    if match["sign"] == "-":
        raise ConfigurationError(f"expected a price of at least 0, got {show(text)}")
    return Price(Fraction(match["amount"]), match["currency"])


def _price(value: object) -> Price:
    return parse_price(value if isinstance(value, str) else show(value))


def _price_text(value: object) -> str:
    _price(value)
    return str(value)


def _parse_pairs(value: object, what: str) -> Pairs:
    def read(inner: object, start: str, end: str) -> Price:
        try:
            return _price(inner)
        except ConfigurationError as error:
            raise ConfigurationError(f"{start}.{end}: {error}") from None

    return zone_pairs(value, what, read)


def _parse_zone_pairs(value: object) -> Pairs:
    pairs = _parse_pairs(value, "zones")
    for start, end, _ in pairs:
        if start == end:
            raise ConfigurationError(f"{start}.{end}: expected two zones: nothing leaves one")
    return pairs


if TYPE_CHECKING:
    _PriceText = str
    _ZonePairs = Pairs
    _RegionPairs = Pairs
else:
    _PriceText = setting_type(str, _price_text)
    _ZonePairs = setting_type(tuple, _parse_zone_pairs)
    _RegionPairs = setting_type(tuple, lambda value: _parse_pairs(value, "regions"))


class Prices(Settings, frozen=True, kw_only=True):
    """Prices of a GB that leaves its zone.

    The pair of ``zones`` wins over the pair of ``regions``, and that over ``per_gb``; pairs have (from, to, price).
    ``charge``: whether a GB is charged at ``one`` end, where it leaves, or at ``both``.
    """

    per_gb: _PriceText | None = field(default=None, name="perGB")
    charge: Annotated[Charge, Meta(description=_CHARGE_EXPECTED)] = "one"
    zones: _ZonePairs = ()
    regions: _RegionPairs = ()

    def __post_init__(self) -> None:
        prices = self._by_field()
        first = next(iter(prices), "")
        for path, price in prices.items():
            if price.currency != self.currency:
                expected = f"expected a price in {self.currency}, as in {SECTION}.{first}"
                raise ConfigurationError(f"{path}: {expected}, got {format_amount(price.amount)} {price.currency}")

    def _by_field(self) -> dict[str, Price]:
        prices: dict[str, Price] = {} if self.per_gb is None else {"perGB": parse_price(self.per_gb)}
        for what, pairs in (("zones", self.zones), ("regions", self.regions)):
            prices |= {f"{what}.{start}.{end}": price for start, end, price in pairs}
        return prices

    @property
    def currency(self) -> str:
        """A code of ISO 4217; empty where there are no prices."""
        return next((price.currency for price in self._by_field().values()), "")

    @property
    def default_amount(self) -> Fraction:
        """Of a GB between places without a separate price."""
        return Fraction(0) if self.per_gb is None else parse_price(self.per_gb).amount

    def __bool__(self) -> bool:
        return bool(self.currency)

    def check_places(self, zones: Iterable[str], regions: Iterable[str]) -> None:
        """Raises ConfigurationError for the price of a zone or a region that the cluster does not have."""
        for what, pairs, known in (
            ("zones", self.zones, sorted(set(zones))),
            ("regions", self.regions, sorted(set(regions))),
        ):
            for zone_name in sorted({zone_name for start, end, _ in pairs for zone_name in (start, end)}):
                if zone_name not in known:
                    expected = (
                        f"expected {what} of Nodes ({listed(tuple(known)) or 'there are none'}), got {zone_name!r}"
                    )
                    raise ConfigurationError(f"{SECTION}.{what}: {expected}{did_you_mean(zone_name, known)}")


class PairPrices:
    """What a GB costs from one zone to another, at all ends that are charged. ``regions``: of zones, where known."""

    def __init__(self, prices: Prices, regions: Mapping[str, str]) -> None:
        ends = 2 if prices.charge == "both" else 1
        self._zones = {(start, end): float(price.amount * ends) for start, end, price in prices.zones}
        self._regions = {(start, end): float(price.amount * ends) for start, end, price in prices.regions}
        self._per_gb = float(prices.default_amount * ends)
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
        price = parse_price(per_gb)
        if prices and prices.currency != price.currency:
            raise ConfigurationError(f"expected a price in {prices.currency}, as in the configuration, got {per_gb!r}")
        prices = replace(prices, per_gb=per_gb)
    return prices if charge is None else replace(prices, charge=charge)
