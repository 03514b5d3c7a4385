"""The keys of measured demand, and every refusal with its one line."""

from fractions import Fraction

import pytest

from zoneward.kube.input_error import ConfigurationError
from zoneward.routing.adoption_settings import ADOPTION_KEYS, AdoptionSettings
from zoneward.routing.configuration import API_VERSION, KIND, DemandSettings, configuration_from


def demand(**keys: object) -> DemandSettings:
    return configuration_from({"apiVersion": API_VERSION, "kind": KIND, "demand": keys}).demand


def test_each_key_is_read_beside_the_source() -> None:
    keys = {"floor": 0.25, "minTraffic": 0, "margin": 0, "maxChangesPerHour": 3, "refresh": "1m30s", "maxAge": "1h"}
    assert keys.keys() == ADOPTION_KEYS.keys()
    assert demand(source="nodes", **keys) == DemandSettings(
        source="nodes",
        adoption=AdoptionSettings(
            floor=Fraction(1, 4),
            min_traffic=Fraction(0),
            margin=Fraction(0),
            max_changes_per_hour=3,
            refresh=90.0,
            max_age=3600.0,
        ),
    )


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("floor", 1.5, "expected a part from 0 to 1 (0.5: half of the share of CPU), got 1.5"),
        ("floor", None, "expected a part from 0 to 1 (0.5: half of the share of CPU), got null"),
        ("minTraffic", -1, "expected a number from 0 to 1e9, got -1"),
        ("minTraffic", float("nan"), "expected a number from 0 to 1e9, got nan"),
        ("margin", "10%", "expected a share of all traffic from 0 to 1 (0.1 is 10 %), got '10%'"),
        ("margin", True, "expected a share of all traffic from 0 to 1 (0.1 is 10 %), got true"),
        ("maxChangesPerHour", 0, "expected a whole number from 1 to 10000, got 0"),
        ("maxChangesPerHour", 2.5, "expected a whole number from 1 to 10000, got 2.5"),
        ("refresh", "1s", "expected a duration from 10s to 1h, got '1s'"),
        ("refresh", 300, "expected a duration (500ms, 15s, 1m30s), got '300'"),
        ("maxAge", "169h", "expected a duration from 1m to 168h, got '169h'"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_in_one_line(key: str, value: object, problem: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        demand(**{key: value})
    assert str(raised.value) == f"demand.{key}: {problem}"
