"""``zoneward compare`` as people and scripts use it."""

import csv
import multiprocessing
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from tests.builders.new_user_clusters import dev_cluster_in_one_zone, write_list
from tests.builders.objects import a_node, a_pod, a_service
from tests.cli.running import SAMPLE, Commands, sample_slices

from zoneward.advice.comparison import COMPARED, Recommendation
from zoneward.cli.compare import ComparisonRequest, compare_services, read_request
from zoneward.cli.options import Options
from zoneward.kube.input_error import InputError
from zoneward.report.comparison_report import csv_lines


def document(zoneward: Commands, *arguments: str) -> dict[str, Any]:
    return dict(zoneward.json("compare", "--sample", *arguments))


def test_json_has_every_approach_for_every_service(zoneward: Commands) -> None:
    comparison = document(zoneward)
    assert comparison.keys() == {"apiVersion", "kind", "services", "total", "now", "best", "proxies"}
    assert all(
        tuple(approach["approach"] for approach in service["approaches"]) == COMPARED
        for service in comparison["services"]
    )
    assert [row["approach"] for row in comparison["total"]] == ["today", *COMPARED]
    cart = next(service for service in comparison["services"] if service["service"] == "cart")
    assert (cart["namespace"], cart["addressType"], cart["asksFor"]) == ("shop", "IPv4", "PreferSameZone")


def test_the_total_is_the_mean_over_endpoints(zoneward: Commands) -> None:
    comparison = document(zoneward, "shop/cart", "shop/catalog", "--only", "local", "--proxy", "zoneward")
    parts = [(service["endpoints"], service["approaches"][0]) for service in comparison["services"]]
    weight = sum(endpoints for endpoints, _ in parts)
    total = comparison["total"][1]
    for field in ("inZoneTraffic", "meanOverload", "score"):
        assert total[field] == pytest.approx(sum(n * row[field] for n, row in parts) / weight, abs=1e-5)
    assert total["maxOverload"] == max(row["maxOverload"] for _, row in parts)
    assert total["slices"] == sum(row["slices"] for _, row in parts)
    assert total["changes"] == sum(row["create"] + row["update"] + row["delete"] for _, row in parts)
    assert (total["active"], total["best"], total["better"]) == (2, 0, 2)
    assert total["needs"] == "controller"


@pytest.mark.parametrize(
    ("approaches", "compat"),
    [
        (("none", "local-opt", "ProportionalZoneCPU"), ()),
        (("none", "ProportionalZoneCPU", "PreferSameNode"), ("--compat", "upstream")),
    ],
)
def test_what_is_compared_is_what_plan_shows(
    zoneward: Commands, tmp_path: Path, approaches: tuple[str, ...], compat: tuple[str, ...]
) -> None:
    """The same numbers, moved endpoints too: here from the groups of local-shared."""
    slices = tmp_path / "slices.json"
    slices.write_bytes(sample_slices(what_if="local-shared"))
    arguments = ("-f", str(SAMPLE), "-f", str(slices), *compat)
    compared = zoneward.json("compare", "-q", *arguments, "--only", ",".join(approaches))["services"]
    fields = ("active", "inZoneTraffic", "maxOverload", "meanOverload", "moved", "reason", "reasonCode")

    def shown(decision: dict[str, Any], changes: dict[str, int]) -> tuple[object, ...]:
        counts = [changes[name] for name in ("create", "update", "delete")]
        return (*(decision[name] for name in fields), *counts)

    for approach in approaches:
        planned = zoneward.json("plan", "-q", *arguments, "--what-if", approach)["decisions"]
        assert [shown(decision, decision["slices"]) for decision in planned] == [
            shown(candidate, candidate)
            for service in compared
            for candidate in service["approaches"]
            if candidate["approach"] == approach
        ]
        assert approach != "local-opt" or any(decision["moved"] for decision in planned)


def test_compared_as_kubernetes_decides_auto_is_active_and_best_is_best(zoneward: Commands) -> None:
    comparison = document(zoneward, "--compat", "upstream")
    auto = next(row for row in comparison["total"] if row["approach"] == "ProportionalZoneCPU")
    assert auto["active"] > 0
    assert auto["best"] > 0
    asked_for_auto = [service for service in comparison["services"] if service["asksFor"] == "ProportionalZoneCPU"]
    assert asked_for_auto
    for service in asked_for_auto:
        candidate = next(
            approach for approach in service["approaches"] if approach["approach"] == "ProportionalZoneCPU"
        )
        assert candidate == service["today"]
    assert comparison["best"]["score"] >= comparison["total"][0]["score"]


def test_csv_has_a_line_for_each_service_and_approach(zoneward: Commands) -> None:
    result = zoneward("compare", "--sample", "-o", "csv")
    rows = list(csv.DictReader(StringIO(result.out)))
    services = document(zoneward)["services"]
    expected = [
        (service["namespace"], service["service"], service["addressType"], approach["approach"])
        for service in services
        for approach in service["approaches"]
    ]
    assert [(row["namespace"], row["service"], row["addressType"], row["approach"]) for row in rows] == expected
    assert [row["best"] for row in rows] == [
        "true" if approach["approach"] == service["best"] else "false"
        for service in services
        for approach in service["approaches"]
    ]
    cart = next(row for row in rows if row["service"] == "cart" and row["approach"] == "PreferSameZone")
    assert (cart["active"], cart["asksFor"]) == ("true", "PreferSameZone")
    ledger = next(row for row in rows if row["service"] == "ledger")
    assert ledger["score"] == "", "nothing can be predicted for a headless Service"


def test_the_table_has_totals_first_and_marks_the_best_and_what_is_asked_for(
    zoneward: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    result = zoneward("compare", "--sample", "--score", "--proxy", "zoneward", "-n", "shop", "cart")
    proxies, head, _, *lines = result.out.splitlines()
    assert proxies == "Proxies: zoneward on 22 nodes"
    assert head.split() == ["SERVICE", "APPROACH", "IN", "ZONE", "WORST", "MEAN", "SLICES", "CHANGES", "SCORE"]
    assert lines[0].startswith("TOTAL")
    (start,) = (index for index, line in enumerate(lines) if line.startswith("shop/cart"))
    blocks = lines[start:]
    assert next(line for line in blocks if " PreferSameZone " in line).endswith("asked for")
    service = document(zoneward, "--proxy", "zoneward", "-n", "shop", "cart")["services"][0]
    assert next(line for line in blocks if f" {service['best']} " in line).endswith("best")
    assert next(line for line in blocks if f" {service['better']} " in line).endswith("better")
    assert next(line for line in blocks if " PreferZone " in line).endswith("needs controller")
    assert max(map(len, lines)) <= 100


def test_now_is_a_row_and_a_field_where_there_are_slices(zoneward: Commands, tmp_path: Path) -> None:
    """The slices have no hints; the Service asks for PreferSameZone."""
    slices = tmp_path / "slices.yaml"
    slices.write_text(zoneward("plan", "-q", "--sample", "--what-if", "none", "-o", "yaml", "shop/cart").out)
    arguments = ("compare", "-q", "--score", "-f", str(SAMPLE), "-f", str(slices), "shop/cart")
    comparison = zoneward.json(*arguments)
    (cart,) = comparison["services"]
    assert cart["now"] == {
        **{
            name: cart["approaches"][0][name]
            for name in ("inZoneTraffic", "maxOverload", "meanOverload", "droppedTraffic", "score")
        },
        "slices": 1,
    }
    assert cart["today"]["inZoneTraffic"] == 1
    assert comparison["now"]["inZoneTraffic"] == cart["now"]["inZoneTraffic"]
    assert comparison["best"]["score"] == max(c["score"] for c in cart["approaches"] if c["approach"] == cart["best"])
    lines = zoneward(*arguments).out.splitlines()
    assert [line.split()[:2] for line in lines if " now " in line] == [["TOTAL", "now"], ["shop/cart", "now"]]
    rows = list(csv.DictReader(StringIO(zoneward(*arguments, "-o", "csv").out)))
    assert {row["nowScore"] for row in rows} == {str(cart["now"]["score"])}


def test_only_the_top_is_shown_with_totals_of_all(zoneward: Commands) -> None:
    few = ("--only", "none,PreferSameZone")
    everything, top = document(zoneward, *few), document(zoneward, *few, "--top", "3")
    by_gain = document(zoneward, *few, "--sort", "gain")["services"]
    assert top["services"] == by_gain[:3]
    assert top["total"] == everything["total"]
    by_name = [(service["namespace"], service["service"]) for service in everything["services"]]
    names = list(dict.fromkeys(by_name))
    assert len(names) < len(by_name), "one has two address families"
    first = document(zoneward, *few, "--top", "3", "--sort", "name")["services"]
    assert first == [
        service for service, name in zip(everything["services"], by_name, strict=True) if name in names[:3]
    ]
    assert document(zoneward, *few, "--top", "0") == everything
    table = zoneward("compare", "--sample", *few, "--details", "--top", "2").out
    assert f"2 of {len(names)} Services are shown; --top 0 shows all." in table
    assert "Services are shown" not in zoneward("compare", "--sample", *few).out
    changed = zoneward("compare", "--sample", *few, "--changed", "--top", "0").out
    assert "Services are shown.\n" in changed, "--top 0 would not show the others"
    lines = zoneward("compare", "--sample", *few, "-o", "csv", "--top", "1").out.splitlines()
    assert len(lines) == 1 + 2


def test_only_takes_names_with_commas_and_again(zoneward: Commands) -> None:
    comparison = document(zoneward, "shop/cart", "--only", "PreferSameZone,local", "--only", "none")
    assert [approach["approach"] for approach in comparison["services"][0]["approaches"]] == [
        "none",
        "PreferSameZone",
        "local",
    ]


@pytest.mark.parametrize(
    ("sort", "of"),
    [
        ("score", lambda service: max(c["score"] for c in service["approaches"] if c["approach"] == service["best"])),
        ("overload", lambda service: service["today"]["maxOverload"]),
        ("in-zone", lambda service: -service["today"]["inZoneTraffic"]),
        (
            "gain",
            lambda service: (
                max(c["score"] for c in service["approaches"] if c["approach"] == service["best"])
                - service["today"]["score"]
            ),
        ),
    ],
)
def test_services_are_sorted_the_largest_first(zoneward: Commands, sort: str, of: Any) -> None:
    services = document(zoneward, "--sort", sort)["services"]
    known = [service for service in services if service["best"] is not None]
    assert services[: len(known)] == known, "those of which nothing is known come last"
    values = [of(service) for service in known]
    assert values == sorted(values, reverse=True)


def test_csv_of_a_service_is_written_before_the_next_one_is_compared() -> None:
    request = read_request(Options(sample=True, quiet=True), ("none", "local"))
    compared: list[str] = []

    def counted() -> Iterator[Recommendation]:
        for recommendation in compare_services(request, Options(quiet=True), processes=1):
            compared.append(recommendation.comparison.service)
            yield recommendation

    lines = csv_lines(counted())
    assert next(lines).startswith("namespace,")
    assert compared == []
    assert request.selected.services[0].metadata.name in next(lines)
    assert len(compared) == 1


@pytest.fixture(scope="module")
def sample() -> ComparisonRequest:
    return read_request(Options(sample=True, quiet=True), COMPARED)


def test_several_processes_compute_the_same_in_the_same_order(sample: ComparisonRequest) -> None:
    alone = list(compare_services(sample, Options(quiet=True), processes=1))
    assert list(compare_services(sample, Options(quiet=True), processes=3, chunk=2)) == alone
    assert len(alone) >= len(sample.selected.services)


def test_the_processes_end_when_nothing_more_is_read(sample: ComparisonRequest) -> None:
    recommendations = compare_services(sample, Options(quiet=True), processes=2, chunk=1)
    next(recommendations)
    recommendations.close()
    assert multiprocessing.active_children() == []


def test_a_killed_process_is_reported(sample: ComparisonRequest) -> None:
    recommendations = compare_services(sample, Options(quiet=True), processes=2, chunk=1)
    next(recommendations)
    for process in multiprocessing.active_children():
        process.kill()
    with pytest.raises(InputError, match="memory"):
        list(recommendations)


def test_a_service_of_two_address_families_counts_once(zoneward: Commands, tmp_path: Path) -> None:
    """What is shown of both is complete, too."""
    items: list[Any] = [a_node("node-a", "a"), a_node("node-b", "b")]
    for index, name in enumerate(("cart", "search")):
        items.append(
            a_service(name, selector={"app": name}, ipFamilies=["IPv4", "IPv6"], ipFamilyPolicy="PreferDualStack")
        )
        items[-1]["spec"]["clusterIPs"] = [f"10.96.0.{index + 1}", f"fd00::{index + 1}"]
        items.append(
            a_pod(name, node="node-a", ips=[f"10.1.0.{index + 1}", f"fd01::{index + 1}"], labels={"app": name})
        )
    file = write_list(items, tmp_path / "dual.json")
    shown = zoneward.json("compare", "-q", "-f", file, "--top", "1")
    assert [(item["service"], item["addressType"]) for item in shown["services"]] == [
        ("cart", "IPv4"),
        ("cart", "IPv6"),
    ]
    assert sum(total["best"] for total in shown["total"]) == 2
    assert "1 of 2 Services are shown" in zoneward("compare", "-q", "-f", file, "--top", "1").out
    assert "<dt>Services</dt><dd>2</dd>" in zoneward("compare", "-q", "-f", file, "-o", "html").out


def test_a_page_has_every_service_or_the_top(zoneward: Commands) -> None:
    for top, count in ((0, 16), (3, 3)):
        result = zoneward("compare", "-q", "--sample", "--details", "-o", "html", "--top", str(top))
        assert result.status == 0
        _, _, rest = result.out.partition("\n")
        groups = list(ElementTree.fromstring(rest).iter("tbody"))
        assert next("".join(next(group.iter("th")).itertext()) for group in groups) == "TOTAL"
        assert len(groups) == 1 + count


def test_a_service_is_one_line_unless_details_are_wanted(zoneward: Commands) -> None:
    table = zoneward("compare", "-q", "--sample", "-n", "shop").out
    lines = [line for line in table.splitlines() if line.startswith("shop/")]
    assert len(lines) == len({line.split()[0] for line in lines}) == 10
    assert "shop/cart             ProportionalZoneCPU  100%>65%  +701%>+7%" in table
    assert "SCORE" not in table
    assert "SLICES" not in table
    for arguments in (("--details",), ("shop/cart",)):
        assert "SLICES" in zoneward("compare", "-q", "--sample", *arguments).out
    assert "SCORE: KEP-2004's, at most 100." in zoneward("compare", "-q", "--sample", "--score").out


def test_a_cluster_in_one_zone_gets_one_line(
    zoneward: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_list(dev_cluster_in_one_zone(), tmp_path / "dev.json")
    line = "All nodes are in zone eu-central-1a: no traffic leaves it, with any setting.\n"
    assert zoneward("compare", "-q", "-f", file).out == line
    monkeypatch.setenv("COLUMNS", "60")
    narrow = zoneward("compare", "-q", "-f", file).out
    assert max(map(len, narrow.splitlines())) <= 60
    assert narrow.split() == line.split()
