"""Settings types: what they read from a document, and how they word what is wrong with it."""

from fractions import Fraction
from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta
from msgspec.structs import replace

from zoneward.kube.input_error import ConfigurationError
from zoneward.kube.settings import Name, Seconds, Settings, bounds, parse_duration, read_settings


class Inner(Settings, frozen=True, kw_only=True):
    share: Annotated[Fraction, bounds("a share from 0 to 1", ge=0, le=1)] = Fraction(1, 2)
    period: Annotated[Seconds, bounds("a duration from 1s to 1h", ge=1, le=3600)] = 5.0
    count: Annotated[int, Meta(ge=1, le=9)] = 3


class Outer(Settings, frozen=True, kw_only=True):
    kind: Literal["one", "two"]
    inner: Inner = Inner()
    is_on: bool = False
    names: tuple[str, ...] = ()
    file_name: Name | None = None
    password: Annotated[str, bounds("text", is_secret=True)] = ""


def test_keys_are_in_camel_case_and_numbers_are_exact() -> None:
    document = {"kind": "two", "inner": {"share": 0.1, "period": "1m30s"}, "isOn": True, "names": ["a"]}
    expected = Outer(kind="two", inner=Inner(share=Fraction(1, 10), period=90.0), is_on=True, names=("a",))
    assert read_settings(document, Outer) == expected


def test_a_key_without_a_value_is_like_an_absent_key() -> None:
    assert read_settings({"kind": "one", "inner": {"share": None}, "isOn": None, "names": None}, Outer) == Outer(
        kind="one"
    )
    assert read_settings(None, Inner) == Inner()


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], ": expected a mapping, got a list"),
        ({"inner": 1}, ".inner: expected a mapping, got 1"),
        ({"inner": {"count": 10}}, ".inner.count: expected a whole number from 1 to 9, got 10"),
        ({"inner": {"count": 2.5}}, ".inner.count: expected a whole number from 1 to 9, got 2.5"),
        ({"inner": {"share": 1.5}}, ".inner.share: expected a share from 0 to 1, got 1.5"),
        ({"inner": {"share": "50%"}}, ".inner.share: expected a share from 0 to 1, got '50%'"),
        ({"inner": {"share": True}}, ".inner.share: expected a share from 0 to 1, got true"),
        ({"inner": {"share": float("nan")}}, ".inner.share: expected a share from 0 to 1, got nan"),
        ({"inner": {"share": 16**5000}}, ".inner.share: expected a share from 0 to 1, got a number far above"),
        ({"inner": {"period": "2h"}}, ".inner.period: expected a duration from 1s to 1h, got 7200s"),
        ({"inner": {"period": 5}}, ".inner.period: expected a duration (500ms, 15s, 1m30s), got '5'"),
        ({"kind": "three"}, ".kind: expected one or two, got 'three'"),
        ({"kind": ["one"]}, ".kind: expected one or two, got a list"),
        ({"kind": None}, ".kind: expected one or two, got none"),
        ({"isOn": "true"}, ".isOn: expected true or false, got 'true'"),
        ({"names": "a"}, ".names: expected a list of strings, got 'a'"),
        ({"names": ["a", 1]}, ".names[1]: expected a string, got 1 without quotes"),
        ({"fileName": ""}, ".fileName: expected a name, got ''"),
        ({"password": 12345}, ".password: expected text, got something else"),
        ({"inner": {1: 2}}, ".inner: expected keys that are strings, got 1 without quotes"),
        (
            {"inner": {"sharing": 1}},
            ".inner.sharing: expected one of share, period, count, got an unknown key (did you mean 'share'?)",
        ),
        ({"a` - at `$.b": 1}, ".a` - at `$.b: expected one of kind, inner"),
    ],
)
def test_an_error_names_the_field_and_what_was_expected(document: Any, message: str) -> None:
    if isinstance(document, dict):
        document = {"kind": "one", **document}
    with pytest.raises(ConfigurationError) as raised:
        read_settings(document, Outer, within="w")
    assert str(raised.value).startswith(f"w{message}")
    assert "\n" not in str(raised.value)


def test_bounds_also_hold_for_values_from_code() -> None:
    with pytest.raises(ConfigurationError, match="share: expected a share from 0 to 1, got 2"):
        replace(Inner(), share=Fraction(2))
    with pytest.raises(ConfigurationError, match="count: expected a whole number from 1 to 9, got 0"):
        Inner(count=0)


DURATIONS = {"0": 0.0, "0s": 0.0, "500ms": 0.5, "1.5s": 1.5, "1m30s": 90.0, "1h0.5m": 3630.0, ".5s": 0.5}
NO_DURATIONS = ("", "5", "-1s", "+1s", "1 s", "s", "1d", "1s2", "1e3s", "1s" * 200, "٣s", "1.2.3s")


def test_durations_are_those_of_go() -> None:
    assert {text: parse_duration(text) for text in DURATIONS} == DURATIONS
    for text in NO_DURATIONS:
        with pytest.raises(ValueError, match="expected a duration"):
            parse_duration(text)
