"""``--demand``: commands decide and predict by the demand that is given, and name it."""

import json
import re
from pathlib import Path

import pytest
from tests.cli.running import SAMPLE, Commands, configuration_file

PARTS = {"eu-central-1a": 0.7, "eu-central-1b": 0.2, "eu-central-1c": 0.1}
FORMS = {
    "d.csv": "zone,part\n" + "".join(f"{zone},{part * 100}\n" for zone, part in PARTS.items()),
    "plain.CSV": "".join(f" {zone} ,{part}\n\n" for zone, part in PARTS.items()),
    "d.yaml": "".join(f"{zone}: {part}\n" for zone, part in PARTS.items()),
    "d.json": json.dumps(PARTS),
}


def cluster_with_demand(folder: Path) -> Path:
    """The sample cluster, in which shop/search says where its traffic starts."""
    written = ",".join(f"{zone}={part:.0%}" for zone, part in PARTS.items())
    text = SAMPLE.read_text()
    position = text.index("\n  name: search\n")
    head, matched, rest = text[:position].rpartition("topology-mode: Auto}")
    assert matched
    file = folder / "cluster.yaml"
    file.write_text(f"{head}topology-mode: Auto, zoneward.dev/demand: '{written}'}}{rest}{text[position:]}")
    return file


def demand_of(zoneward: Commands, *arguments: str | Path) -> dict[str, float]:
    (decision,) = zoneward.json("plan", "--sample", "shop/search", *arguments)["decisions"]
    return {zone: figures["demand"] for zone, figures in decision["zones"].items()}


@pytest.mark.parametrize("name", FORMS)
def test_a_file_has_a_part_for_each_zone(zoneward: Commands, tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_text(FORMS[name])
    assert demand_of(zoneward, "--demand", file) == pytest.approx(PARTS)


def test_every_command_that_decides_uses_it_and_names_it(zoneward: Commands, tmp_path: Path) -> None:
    file = tmp_path / "d.yaml"
    file.write_text(FORMS["d.yaml"])
    for command in (
        ("plan", "shop/search"),
        ("compare", "shop/search"),
        ("explain", "shop/search"),
        ("route", "shop/search", "--node", "worker-a1"),
        ("check", "shop/search"),
    ):
        given, usual = zoneward(*command, "--sample", "--demand", file), zoneward(*command, "--sample")
        said = "zoneward: demand as it was set: eu-central-1a 70%, eu-central-1b 20%, eu-central-1c 10%\n"
        assert said in given.err
        assert "demand" not in usual.err
        if command[0] != "check":
            assert given.out != usual.out


def test_sources_have_names(zoneward: Commands) -> None:
    assert demand_of(zoneward, "--demand", "even") == pytest.approx(dict.fromkeys(PARTS, 1 / 3), abs=1e-6)
    assert demand_of(zoneward, "--demand", "nodes")["eu-central-1c"] == pytest.approx(6 / 22, abs=1e-6)
    assert demand_of(zoneward, "--demand", "cpu") == demand_of(zoneward)
    heading = zoneward("plan", "--sample", "--demand", "even", "shop/search").out
    assert "33%  b = eu-central-1b 33%" in heading
    assert "the same in each zone" in heading


def test_the_option_wins_over_the_configuration(zoneward: Commands, tmp_path: Path) -> None:
    file = configuration_file(tmp_path, "demand: {source: even}")
    assert demand_of(zoneward, "--config", file) == demand_of(zoneward, "--demand", "even")
    assert demand_of(zoneward, "--config", file, "--demand", "cpu") == demand_of(zoneward)


def test_parts_that_are_no_shares_are_told(zoneward: Commands, tmp_path: Path) -> None:
    file = tmp_path / "d.csv"
    file.write_text(FORMS["d.csv"])
    note = "zoneward: the parts of demand add up to 100, and count in proportion\n"
    assert note in zoneward("plan", "--sample", "--demand", file).err
    file.write_text(FORMS["plain.CSV"])
    assert note not in zoneward("plan", "--sample", "--demand", file).err


BAD = {
    "a,b,c": "line 1: expected a zone and its part of the traffic, got 'a,b,c'",
    "a,1\na,2": "line 2: expected 'a' once, got 'a,2'",
    "a,-1": "a: expected a number from 0 to 1e9: only their ratios matter, got -1",
    "a,many": "a: expected a number from 0 to 1e9: only their ratios matter, got 'many'",
    "a,nan": "a: expected a number from 0 to 1e9: only their ratios matter, got nan",
    "a,0": "expected a part above 0 for a zone, got none",
    "zone,part": "expected a part above 0 for a zone, got none",
    "a b,1": "expected names of zones, got 'a b'",
    "eu-central-1d,1": "expected zones of Nodes (eu-central-1a, eu-central-1b, eu-central-1c), got 'eu-central-1d'",
}


@pytest.mark.parametrize("text", BAD)
def test_what_a_file_may_not_have_is_told_in_one_line(zoneward: Commands, tmp_path: Path, text: str) -> None:
    file = tmp_path / "d.csv"
    file.write_text(text + "\n")
    assert zoneward.refused("plan", "--sample", "--demand", file).startswith(f"zoneward: {file}: {BAD[text]}")


def test_what_is_neither_a_source_nor_a_file_is_told_in_one_line(zoneward: Commands, tmp_path: Path) -> None:
    err = zoneward.refused("plan", "--sample", "--demand", "noes")
    assert "--demand: expected cpu, nodes, even, file, prometheus, a file, or http://HOST:PORT of a Prometheus" in err
    assert "did you mean 'nodes'?" in err
    (tmp_path / "list.json").write_text("[1]")
    assert "expected a map from zones to parts of the traffic, got a list" in zoneward.refused(
        "plan", "--sample", "--demand", tmp_path / "list.json"
    )


def test_current_kubernetes_decides_by_cpu(zoneward: Commands) -> None:
    arguments = ("-q", "--sample", "--compat", "upstream", "shop/search", "-o", "json")
    (by_cpu,) = json.loads(zoneward("plan", *arguments).out)["decisions"]
    (even,) = json.loads(zoneward("plan", *arguments, "--demand", "even").out)["decisions"]
    assert [zone["demand"] for zone in even["zones"].values()] == pytest.approx([1 / 3] * 3, abs=1e-5)
    assert (even["allocation"], even["reason"]) == (by_cpu["allocation"], by_cpu["reason"])
    assert even["maxOverload"] != by_cpu["maxOverload"]


def test_what_a_service_says_wins(zoneward: Commands, tmp_path: Path) -> None:
    file = cluster_with_demand(tmp_path)
    for options in ((), ("--demand", "even")):
        planned = zoneward.json("plan", "-q", "-f", file, "shop/search", "shop/catalog", *options)
        annotated, other = planned["decisions"]
        assert {zone: figures["demand"] for zone, figures in annotated["zones"].items()} == pytest.approx(PARTS)
        assert other["zones"]["eu-central-1a"]["demand"] < 0.5
        assert [rule["passed"] for rule in annotated["rules"] if rule["rule"] == "demand-annotation"] == [True]
    (decision,) = zoneward.json("plan", "-q", "-f", file, "shop/search", "--compat", "upstream")["decisions"]
    assert decision["zones"]["eu-central-1a"]["demand"] == pytest.approx(0.7), "traffic starts there all the same"
    (by_cpu,) = zoneward.json("plan", "-q", "--sample", "shop/search", "--compat", "upstream")["decisions"]
    assert decision["allocation"] == by_cpu["allocation"], "Kubernetes does not read it"
    assert decision["maxOverload"] > by_cpu["maxOverload"]
    (explained,) = zoneward.json("explain", "-q", "-f", file, "shop/search")["families"]
    assert {zone: figures["demand"] for zone, figures in explained["planned"]["zones"].items()} == pytest.approx(PARTS)
    (compared,) = zoneward.json("compare", "-q", "-f", file, "shop/search")["services"]
    own_zone = next(approach for approach in compared["approaches"] if approach["approach"] == "PreferSameZone")
    assert own_zone["maxOverload"] == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(("value", "problem"), [("banana", "it counts as not set"), ("nowhere=1", None)])
def test_check_finds_what_cannot_be_read(zoneward: Commands, tmp_path: Path, value: str, problem: str | None) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(re.sub(r"(topology-mode: Auto)\}", rf"\1, zoneward.dev/demand: {value}}}", SAMPLE.read_text()))
    findings = zoneward.json("check", "-q", "-f", file)["findings"]
    messages = [finding["message"] for finding in findings if "zoneward.dev/demand" in finding["message"]]
    assert all(problem in message for message in messages) if problem else not messages
    assert bool(messages) == (problem is not None)


def test_an_anonymized_snapshot_has_the_same_demand(zoneward: Commands, tmp_path: Path) -> None:
    file, anonymized = cluster_with_demand(tmp_path), tmp_path / "anonymized.json"
    assert zoneward("snapshot", "-q", "-f", file, "shop/search", "--anonymize", "--file", anonymized).status == 0
    assert "eu-central-1a=70%" in file.read_text()
    (decision,) = zoneward.json("plan", "-q", "-f", anonymized)["decisions"]
    assert sorted(zone["demand"] for zone in decision["zones"].values()) == pytest.approx(sorted(PARTS.values()))
    assert any(rule["rule"] == "demand-annotation" and rule["passed"] for rule in decision["rules"])
