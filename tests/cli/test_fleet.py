"""``--context`` more than once: a row for each cluster."""

import json
from pathlib import Path

import pytest
import yaml
from tests.cli.live_cluster import Cluster
from tests.cli.running import Commands

BYTES = Path(__file__).parents[2] / "examples" / "measured-bytes.jsonl"
BOTH = ("--context", "here", "--context", "there")


@pytest.fixture
def with_a_cluster_that_is_gone(cluster: Cluster) -> Cluster:
    configuration = yaml.safe_load(cluster.kubeconfig.read_text())
    if not any(context["name"] == "gone" for context in configuration["contexts"]):
        # Port 1 of loopback: nobody listens there.
        configuration["clusters"].append({"name": "gone", "cluster": {"server": "http://127.0.0.1:1"}})
        configuration["contexts"].append({"name": "gone", "context": {"cluster": "gone", "user": "me"}})
        cluster.kubeconfig.write_text(yaml.safe_dump(configuration))
    return cluster


def rows(text: str) -> dict[str, list[str]]:
    return {line.split()[0]: line.split()[1:] for line in text.splitlines()[2:] if line[:1].strip()}


@pytest.mark.usefixtures("cluster")
def test_each_cluster_has_a_row_and_its_document(zoneward: Commands) -> None:
    advice = zoneward("advise", *BOTH)
    assert (advice.status, advice.err) == (0, "")
    assert rows(advice.out).keys() == {"here", "there"}
    assert rows(advice.out)["here"] == rows(advice.out)["there"], "advise reads all namespaces"
    check = zoneward("check", "-q", *BOTH)
    assert check.status == 0
    assert rows(check.out)["here"] != rows(check.out)["there"], "check reads the namespace of the context"
    report = zoneward("report", "-q", "-A", *BOTH, "--measured", BYTES, "--price-per-gb", "0.01USD")
    assert rows(report.out)["here"] == rows(report.out)["there"]
    assert rows(report.out)["here"][:3] == ["8", "2,519", "25.2"]
    for command, kind, *more in (
        ("advise", "Advice"),
        ("check", "Check", "-A"),
        ("report", "Report", "-A", "--measured", str(BYTES)),
    ):
        fleet = json.loads(zoneward(command, "-q", *BOTH, *more, "-o", "json").out)
        assert (fleet["apiVersion"], fleet["kind"]) == ("zoneward.dev/v1alpha1", f"{kind}List")
        alone = json.loads(zoneward(command, "-q", "--context", "here", *more, "-o", "json").out)
        assert alone["kind"] == kind
        assert fleet["items"] == [{"context": name, **alone} for name in ("here", "there")]


@pytest.mark.parametrize("command", [("advise",), ("check",), ("report", "--measured", str(BYTES))])
@pytest.mark.usefixtures("with_a_cluster_that_is_gone")
def test_a_cluster_that_cannot_be_read_hides_no_other(zoneward: Commands, command: tuple[str, ...]) -> None:
    name, *more = command
    result = zoneward(name, "-q", *more, "--context", "gone", "--context", "here")
    assert result.status == 2
    shown = rows(result.out)
    assert shown["here"]
    assert "127.0.0.1:1" in " ".join(shown["gone"])
    items = json.loads(zoneward(name, "-q", *more, "--context", "gone", "--context", "here", "-o", "json").out)["items"]
    assert items[0].keys() == {"context", "error"}
    assert items[1]["kind"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("plan",), "--context: expected one, got 2: advise, check and report take several"),
        (("advise", "2"), "--context: expected no number, no --diff, and -o text, json or yaml with several"),
        (("advise", "-o", "html"), "--context: expected no number, no --diff, and -o text, json or yaml with several"),
        (("check", "-o", "sarif"), "--context: expected -o table or json with several"),
        (("check", "--sample"), "--context: expected neither -f nor --sample with it"),
    ],
)
@pytest.mark.usefixtures("cluster")
def test_what_cannot_show_several_clusters_says_so(
    zoneward: Commands, arguments: tuple[str, ...], message: str
) -> None:
    result = zoneward(*arguments, *BOTH)
    assert (result.status, result.out) == (2, "")
    assert message in result.err
    assert result.err.count("\n") == 1
