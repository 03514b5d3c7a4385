"""Prices between zones: what options and the configuration say, and what they refuse."""

from fractions import Fraction
from typing import Any

import pytest

from zoneward.advice.prices import PairPrices, Prices, parse_price, with_price
from zoneward.kube.input_error import ConfigurationError
from zoneward.kube.settings import read_settings

SECTION = {
    "perGB": "0.01USD",
    "zones": {"a": {"b": "0.02 USD"}},
    "regions": {"eu": {"us": "0.05USD", "eu": "0.005USD"}, "us": {"eu": "0.07USD"}},
}
REGIONS = {"a": "eu", "b": "eu", "c": "eu", "d": "us"}


def test_the_pair_of_zones_wins_over_that_of_regions_and_a_pair_counts_in_both_directions() -> None:
    prices = PairPrices(read_settings(SECTION, Prices), REGIONS)
    assert prices.of("a", "b") == prices.of("b", "a") == 0.02
    assert prices.of("a", "c") == 0.005
    assert (prices.of("a", "d"), prices.of("d", "a")) == (0.05, 0.07)
    assert prices.of("a", "e") == 0.01
    assert prices.of("a", "a") == 0


def test_both_ends_cost_twice_as_much_as_one() -> None:
    one = read_settings(SECTION, Prices)
    both = PairPrices(with_price(one, None, "both"), {})
    assert [both.of("a", end) for end in "abc"] == [2 * PairPrices(one, {}).of("a", end) for end in "abc"]


def test_the_option_wins_over_the_configuration() -> None:
    prices = with_price(read_settings(SECTION, Prices), "0.03USD", None)
    assert (prices.default_amount, prices.zones) == (Fraction(3, 100), read_settings(SECTION, Prices).zones)
    assert not Prices()
    assert with_price(Prices(), "0EUR", "both")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.01", "got '0.01' without a currency"),
        ("-0.01USD", "at least 0, got '-0.01USD'"),
        ("-1", "without a currency"),
        ("USD", "such as 0.01USD, got 'USD'"),
        ("0.01usd", "got '0.01usd'"),
        ("nanUSD", "got 'nanUSD'"),
        ("1e9USD", "got '1e9USD'"),
        ("", "got ''"),
        ("\u0661USD", "such as 0.01USD"),
    ],
)
def test_a_price_that_is_none_is_refused(text: str, expected: str) -> None:
    with pytest.raises(ConfigurationError, match="expected") as refused:
        parse_price(text)
    assert expected in str(refused.value)


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ([], "prices: expected a mapping, got a list"),
        ({"perGb": "1USD"}, "prices.perGb: expected one of perGB, charge, zones, regions, got an unknown key"),
        ({"perGB": 0.01}, "prices.perGB: expected a price and its currency, such as 0.01USD, got '0.01' without"),
        ({"charge": "twice"}, "prices.charge: expected one (where it leaves its zone) or both"),
        ({"charge": ["one"]}, "prices.charge: expected one"),
        ({"zones": {"a": {"b": "-1USD"}}}, "prices.zones.a.b: expected a price of at least 0"),
        ({"zones": {"a": {"a": "1USD"}}}, "prices.zones.a.a: expected two zones"),
        ({"zones": {"a": "1USD"}}, "prices.zones.a: expected a mapping"),
        ({"regions": {"": {"a": "1USD"}}}, "prices.regions: expected names of regions, got ''"),
        ({"perGB": "1USD", "zones": {"a": {"b": "1EUR"}}}, "prices.zones.a.b: expected a price in USD, as in prices."),
    ],
)
def test_a_section_that_cannot_be_used_is_refused_with_its_path(section: Any, expected: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read_settings(section, Prices, within="prices")
    assert str(refused.value).startswith(expected)


def test_places_that_the_cluster_does_not_have_are_refused_with_near_names() -> None:
    prices = read_settings({"zones": {"eu-1a": {"eu-1x": "1USD"}}, "regions": {"eu": {"us": "1USD"}}}, Prices)
    with pytest.raises(
        ConfigurationError, match=r"prices\.zones: expected zones of Nodes .*got 'eu-1x' \(did you mean"
    ):
        prices.check_places(["eu-1a", "eu-1b"], ["eu", "us"])
    with pytest.raises(ConfigurationError, match=r"prices\.regions: expected regions of Nodes .*got 'us'"):
        prices.check_places(["eu-1a", "eu-1x"], ["eu"])
    with pytest.raises(ConfigurationError, match="expected a price in USD, as in the configuration, got '1EUR'"):
        with_price(prices, "1EUR", None)
