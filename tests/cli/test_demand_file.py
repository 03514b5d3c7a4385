"""``--demand FILE`` with figures of single Services: CSV, YAML, JSON, and what proxies and meters measured."""

import gzip
import json
from collections.abc import Mapping
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any, Final

import pytest
from tests.builders.objects import measured_traffic, service_traffic
from tests.cli.running import Commands, configuration_file
from tests.cli.test_measured import serving

A, B, C = "eu-central-1a", "eu-central-1b", "eu-central-1c"
FIGURES: Final = {A: 700, B: 200, C: 100}
SHARES: Final = {A: 0.7, B: 0.2, C: 0.1}


def test_measured_documents_come_from_an_address_and_from_standard_input(
    zoneward: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = (Path(__file__).parents[2] / "examples" / "measured.jsonl").read_bytes()
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(document)))
    arguments = ("plan", "--sample", "shop/search", "-o", "json", "--demand")
    given = zoneward(*arguments, "-")
    with serving(200, document) as url:
        fetched = zoneward(*arguments, url)
        with_password = zoneward(*arguments, url.replace("//", "//me:secret@"))
    assert (given.status, fetched.status) == (0, 0), given.err + fetched.err
    assert fetched.out == given.out
    assert f"demand of 2 of 16 Services from {url}; by CPU for the others\n" in fetched.err
    assert "demand of 2 of 16 Services from standard input; by CPU" in given.err
    assert (with_password.status, with_password.out) == (0, given.out)
    assert "secret" not in with_password.err


NODE: Final = "worker-a1"


def traffic(connections: int, **more: Any) -> dict[str, Any]:
    return service_traffic("search", {A: connections}, **more)


MEASURED: Final = [
    measured_traffic("worker-a1", A, traffic(300), traffic(400, addressType="IPv6")),
    measured_traffic("worker-b1", B, traffic(200, external={B: 5000})),
    measured_traffic("worker-c1", C, traffic(60)),
    measured_traffic("worker-c2", C, traffic(40)),
]
FORMS: Final[Mapping[str, str | bytes]] = {
    "d.csv": "namespace,service,zone,amount\n" + "".join(f"shop,search,{z},{n}\n" for z, n in FIGURES.items()),
    "other.CSV": "Amount, ZONE ,service,namespace\n\n" + "".join(f"{n}, {z},search,shop\n" for z, n in FIGURES.items()),
    "d.yaml": f"shop/search: {{{A}: 0.7, {B}: 0.2, {C}: 0.1}}\n",
    "d.json": json.dumps({"shop/search": FIGURES, "shop/cart": {A: 0}}),
    "measured.json": "\n".join(map(json.dumps, MEASURED)),
    "measured.json.gz": gzip.compress(json.dumps({"kind": "List", "items": MEASURED}).encode()),
}


def decisions(zoneward: Commands, *arguments: str | Path) -> tuple[dict[str, Any], str]:
    result = zoneward("plan", "--sample", "shop/search", "shop/catalog", "-o", "json", *arguments)
    assert result.status == 0, result.err
    return {decision["service"]: decision for decision in json.loads(result.out)["decisions"]}, result.err


def demand_of(decision: Mapping[str, Any]) -> dict[str, float]:
    return {zone: figures["demand"] for zone, figures in decision["zones"].items()}


@pytest.mark.parametrize("name", FORMS)
def test_a_file_has_figures_of_single_services(zoneward: Commands, tmp_path: Path, name: str) -> None:
    file, content = tmp_path / name, FORMS[name]
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    planned, said = decisions(zoneward, "--demand", file)
    usual, _ = decisions(zoneward)
    assert demand_of(planned["search"]) == pytest.approx(SHARES)
    assert planned["catalog"] == usual["catalog"], "the others get their demand by CPU"
    assert f"zoneward: demand of 1 of 16 Services from {file}; by CPU for the others\n" in said
    note = f"zoneward: {file}: the amounts of 1 Service do not add up to 1, and count in proportion\n"
    assert (note in said) == (name in ("d.csv", "other.CSV", "d.json"))
    rule = next(rule for rule in planned["search"]["rules"] if rule["rule"] == "demand-figures")
    assert rule["detail"] == f"by figures of this Service, traffic starts in {A} 70%, {B} 20%, {C} 10%"
    assert all(rule["rule"] != "demand-figures" for rule in planned["catalog"]["rules"])


def test_a_directory_of_documents_is_one_source(zoneward: Commands, tmp_path: Path) -> None:
    for index, content in enumerate(MEASURED):
        (tmp_path / f"{index}.json").write_text(json.dumps(content))
    planned, _ = decisions(zoneward, "--demand", tmp_path)
    assert demand_of(planned["search"]) == pytest.approx(SHARES)


def test_documents_of_nodes_that_are_gone_count_for_nothing(zoneward: Commands, tmp_path: Path) -> None:
    """The Node that replaced another one sends its traffic: it must not count twice."""
    file = tmp_path / "m.json"
    gone = [measured_traffic("old", A, traffic(700)), measured_traffic("older", "eu-central-1x", traffic(9))]
    file.write_text("\n".join(map(json.dumps, [*MEASURED, *gone])))
    planned, said = decisions(zoneward, "--demand", file)
    assert demand_of(planned["search"]) == pytest.approx(SHARES)
    assert "zoneward: not counted: 2 measured nodes not in the cluster: old, older\n" in said
    file.write_text("\n".join(map(json.dumps, gone)))
    assert f"{file}: expected documents of Nodes of this cluster, got none: old is no Node" in zoneward.refused(
        "plan", "--sample", "--demand", file
    )


def test_nodes_that_counted_for_different_times_send_what_they_do_in_the_same_time(
    zoneward: Commands, tmp_path: Path
) -> None:
    file, short = tmp_path / "m.json", {"since": "2026-03-02T09:00:00Z"}
    documents = [
        measured_traffic("worker-a1", A, traffic(2400)),
        measured_traffic("worker-b1", B, traffic(100), **short),
    ]
    file.write_text("\n".join(map(json.dumps, documents)))
    planned, _ = decisions(zoneward, "--demand", file)
    assert demand_of(planned["search"]) == pytest.approx({A: 0.5, B: 0.5, C: 0})


def test_what_documents_do_not_tell_is_told(zoneward: Commands, tmp_path: Path) -> None:
    file = tmp_path / "m.json"
    file.write_text(
        "\n".join(map(json.dumps, [*MEASURED, measured_traffic("worker-b2", None, traffic(3), complete=False)]))
    )
    planned, said = decisions(zoneward, "--demand", file)
    assert demand_of(planned["search"]) == pytest.approx(SHARES)
    assert "zoneward: 3 connections from nodes without a zone count for nothing\n" in said
    assert "zoneward: 1 node did not count everything\n" in said


def test_the_configuration_names_a_file_beside_it(zoneward: Commands, tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text(str(FORMS["d.csv"]))
    (tmp_path / "zones.csv").write_text(f"{A},1\n{B},1\n")
    file = configuration_file(tmp_path, f"demand: {{source: file, file: d.csv, zones: {{{A}: 1}}}}")
    planned, said = decisions(zoneward, "--config", file)
    assert demand_of(planned["search"]) == pytest.approx(SHARES)
    assert planned["catalog"]["zones"][A]["demand"] == 1, "the zones are for the others"
    assert "; as it was set for the others\n" in said
    configuration_file(tmp_path, "demand: {file: zones.csv}")
    assert demand_of(decisions(zoneward, "--config", file)[0]["search"])[A] < 0.5, "it is not chosen"
    chosen, _ = decisions(zoneward, "--config", file, "--demand", "file")
    assert chosen["catalog"]["zones"][A]["demand"] == pytest.approx(0.5)
    result = zoneward("plan", "--sample", "--demand", "file")
    assert (result.status, result.err) == (
        2,
        "zoneward: --demand: expected demand.file in the file of --config with it, got none\n",
    )


def test_unknown_services_are_counted_and_skipped(zoneward: Commands, tmp_path: Path) -> None:
    file = tmp_path / "d.csv"
    file.write_text(f"{FORMS['d.csv']!s}shop,gone,{A},5\nelsewhere,search,{A},5\n")
    planned, said = decisions(zoneward, "--demand", file)
    assert demand_of(planned["search"]) == pytest.approx(SHARES)
    assert f"zoneward: {file}: 2 Services were skipped that are not in the cluster as it was read (" in said
    assert "(elsewhere/search, shop/gone)\n" in said


def test_a_zone_that_fails_sends_nothing(zoneward: Commands, tmp_path: Path) -> None:
    file = tmp_path / "d.csv"
    file.write_text(str(FORMS["d.csv"]))
    planned, _ = decisions(zoneward, "--demand", file, "--without-zone", A)
    assert {zone: amount for zone, amount in demand_of(planned["search"]).items() if amount} == pytest.approx(
        {B: 2 / 3, C: 1 / 3}
    )


def test_plan_and_explain_say_that_figures_decide(zoneward: Commands, tmp_path: Path) -> None:
    file = tmp_path / "d.csv"
    file.write_text(str(FORMS["d.csv"]))
    for command, line in (
        ("plan", "\nWith their own demand, by figures: 1 of 1 Service\n"),
        ("explain", f"yes demand-figures            by figures of this Service, traffic starts in {A} 70%"),
    ):
        result = zoneward(command, "shop/search", "--sample", "--demand", file)
        assert f"zoneward: demand of 1 of 16 Services from {file}; by CPU for the others\n" in result.err
        assert line in result.out


HEAD: Final = "namespace,service,zone,amount\n"
BAD: Final[Mapping[tuple[str, str], str]] = {
    ("d.csv", f"{HEAD}shop,search,{A}"): "line 2: expected namespace, service, zone, amount, got 'shop,search,",
    ("d.csv", f"{HEAD}shop,,{A},1"): "line 2: expected a namespace, a service and a zone, got 'shop,,eu-central-1a,1'",
    ("d.csv", f"{HEAD}s,c,{A},1\n\ns,c,{A},2"): "line 4: expected s/c in eu-central-1a once, got 's,c,eu-central-1a,2'",
    ("d.csv", f"{HEAD}shop,search,{A},-1"): "line 2: expected a number from 0 to 1e+18, got -1.0",
    ("d.csv", f"{HEAD}shop,search,{A},nan"): "line 2: expected a number from 0 to 1e+18, got nan",
    ("d.csv", f"{HEAD}shop,search,{A},inf"): "line 2: expected a number from 0 to 1e+18, got inf",
    ("d.csv", f"{HEAD}shop,search,{A},some"): "line 2: expected a number from 0 to 1e+18, got 'some'",
    ("d.csv", HEAD): "expected an amount above 0 for a Service, got none",
    ("d.csv", f"{HEAD}shop,search,{A},0"): "expected an amount above 0 for a Service, got none",
    ("d.csv", f"{HEAD}shop,search,eu-central-1d,5"): "shop/search: expected zones of Nodes (eu-central-1a, eu-central-",
    ("d.yaml", f"shop/search: {{{A}: -1}}"): "shop/search: eu-central-1a: expected a number from 0 to 1e+18, got -1",
    ("d.yaml", f"shop/search: {{{A}: .nan}}"): "shop/search: eu-central-1a: expected a number from 0 to 1e+18, got",
    ("d.yaml", f"shop/search: {{{A}: true}}"): "shop/search: eu-central-1a: expected a number from 0 to 1e+18, got",
    ("d.yaml", f"shop/search: {{{A}: 1}}\n{B}: 1"): "expected NAMESPACE/SERVICE with an amount for each zone, got 'eu-",
    ("d.yaml", f"shop/search: {{{A}: 1}}\na/b: 1"): "a/b: expected a map from zones to amounts, got 1",
    ("d.yaml", "a/b/c: {x: 1}"): "expected NAMESPACE/SERVICE with an amount for each zone, got 'a/b/c'",
    ("d.json", json.dumps(measured_traffic(NODE, A))): "expected connections from a zone to a Service, got none",
    ("d.json", json.dumps(measured_traffic(NODE, "nowhere", traffic(1)))): "shop/search: expected zones of Nodes (",
    ("d.json", json.dumps(measured_traffic(NODE, A, traffic(-1)))): "expected a document of kind MeasuredTraffic, got",
}  # fmt: skip


@pytest.mark.parametrize("case", BAD, ids=BAD.get)
def test_what_a_file_may_not_have_is_told_in_one_line(
    zoneward: Commands, tmp_path: Path, case: tuple[str, str]
) -> None:
    file = tmp_path / case[0]
    file.write_text(case[1] + "\n")
    assert zoneward.refused("plan", "--sample", "--demand", file).startswith(f"zoneward: {file}: {BAD[case]}")
