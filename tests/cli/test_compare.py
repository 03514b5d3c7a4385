"""``zoneward compare`` as people and scripts use it."""

import csv
import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from tests.cli.running import SAMPLE, Commands

from zoneward.slices.comparison import COMPARED


def document(zoneward: Commands, *arguments: str) -> dict[str, Any]:
    result = zoneward("compare", "--sample", *arguments, "-o", "json")
    assert result.status == 0, result.err
    found = json.loads(result.out)
    assert isinstance(found, dict)
    return found


def test_json_has_every_approach_for_every_service(zoneward: Commands) -> None:
    found = document(zoneward)
    assert found.keys() == {"services", "total"}
    assert all(tuple(each["approach"] for each in service["approaches"]) == COMPARED for service in found["services"])
    assert [each["approach"] for each in found["total"]] == ["today", *COMPARED]
    cart = next(each for each in found["services"] if each["service"] == "cart")
    assert (cart["namespace"], cart["addressType"], cart["asksFor"]) == ("shop", "IPv4", "PreferSameZone")


def test_the_total_is_the_mean_over_endpoints(zoneward: Commands) -> None:
    found = document(zoneward, "shop/cart", "shop/catalog", "--only", "local")
    parts = [(service["endpoints"], service["approaches"][0]) for service in found["services"]]
    weight = sum(endpoints for endpoints, _ in parts)
    total = found["total"][1]
    for field in ("inZoneTraffic", "meanOverload", "score"):
        assert total[field] == pytest.approx(sum(n * each[field] for n, each in parts) / weight, abs=1e-5)
    assert total["maxOverload"] == max(each["maxOverload"] for _, each in parts)
    assert total["slices"] == sum(each["slices"] for _, each in parts)
    assert total["changes"] == sum(each["create"] + each["update"] + each["delete"] for _, each in parts)
    assert (total["active"], total["best"]) == (2, 2)


@pytest.mark.parametrize("approach", ["none", "local", "local-opt", "ProportionalZoneCPU"])
def test_what_is_compared_is_what_plan_shows(zoneward: Commands, tmp_path: Path, approach: str) -> None:
    """The same numbers, moved endpoints too: here from the groups of local-shared."""
    slices = tmp_path / "slices.yaml"
    slices.write_text(zoneward("plan", "-q", "--sample", "--what-if", "local-shared", "-o", "yaml").out)
    arguments = ("-f", str(SAMPLE), "-f", str(slices))
    planned = json.loads(zoneward("plan", "-q", *arguments, "--what-if", approach, "-o", "json").out)["decisions"]
    compared = json.loads(zoneward("compare", "-q", *arguments, "--only", approach, "-o", "json").out)["services"]
    fields = ("active", "inZoneTraffic", "maxOverload", "meanOverload", "moved", "reason", "reasonCode")

    def shown(each: dict[str, Any], changes: dict[str, int]) -> tuple[object, ...]:
        counts = [changes[name] for name in ("create", "update", "delete")]
        return (*(each[name] for name in fields), *counts)

    assert [shown(each, each["slices"]) for each in planned] == [
        shown(candidate, candidate) for service in compared for candidate in service["approaches"]
    ]
    if approach == "local-opt":
        assert any(each["moved"] for each in planned)


def test_csv_has_a_line_for_each_service_and_approach(zoneward: Commands) -> None:
    result = zoneward("compare", "--sample", "-o", "csv")
    rows = list(csv.DictReader(StringIO(result.out)))
    expected = [
        (service["namespace"], service["service"], service["addressType"], each["approach"])
        for service in document(zoneward)["services"]
        for each in service["approaches"]
    ]
    assert [(row["namespace"], row["service"], row["addressType"], row["approach"]) for row in rows] == expected
    assert [row["best"] for row in rows] == [
        "true" if each["approach"] == service["best"] else "false"
        for service in document(zoneward)["services"]
        for each in service["approaches"]
    ]
    cart = next(row for row in rows if row["service"] == "cart" and row["approach"] == "PreferSameZone")
    assert (cart["active"], cart["asksFor"]) == ("true", "PreferSameZone")
    ledger = next(row for row in rows if row["service"] == "ledger")
    assert ledger["score"] == "", "nothing can be predicted for a headless Service"


def test_the_table_marks_the_best_and_what_is_asked_for_today(zoneward: Commands) -> None:
    result = zoneward("compare", "--sample", "-n", "shop", "cart")
    lines = result.out.splitlines()
    assert lines[0].split() == ["SERVICE", "APPROACH", "IN", "ZONE", "WORST", "MEAN", "SLICES", "CHANGES", "SCORE"]
    assert next(line for line in lines if " PreferSameZone " in line).endswith("today")
    best = document(zoneward, "-n", "shop", "cart")["services"][0]["best"]
    assert next(line for line in lines if f" {best} " in line).endswith("best")
    assert max(map(len, lines)) <= 100


def test_only_takes_names_with_commas_and_again(zoneward: Commands) -> None:
    found = document(zoneward, "shop/cart", "--only", "PreferSameZone,local", "--only", "none")
    assert [each["approach"] for each in found["services"][0]["approaches"]] == ["none", "PreferSameZone", "local"]


@pytest.mark.parametrize(
    ("sort", "of"),
    [
        ("score", lambda each: max(c["score"] for c in each["approaches"] if c["approach"] == each["best"])),
        ("overload", lambda each: each["today"]["maxOverload"]),
        ("in-zone", lambda each: max(c["inZoneTraffic"] for c in each["approaches"] if c["approach"] == each["best"])),
        (
            "gain",
            lambda each: (
                max(c["score"] for c in each["approaches"] if c["approach"] == each["best"]) - each["today"]["score"]
            ),
        ),
    ],
)
def test_services_are_sorted_the_largest_first(zoneward: Commands, sort: str, of: Any) -> None:
    found = document(zoneward, "--sort", sort)["services"]
    known = [each for each in found if each["best"] is not None]
    assert found[: len(known)] == known, "those of which nothing is known come last"
    values = [of(each) for each in known]
    assert values == sorted(values, reverse=True)
