"""``--context`` more than once: a row for each cluster."""

import json

import pytest
import yaml
from tests.cli.live_cluster import Cluster
from tests.cli.running import MEASURED, Commands

from zoneward.client.transport import RetryPolicy

BOTH = ("--context", "here", "--context", "there")


@pytest.fixture
def with_a_cluster_that_is_gone(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Port 1 of loopback: nobody listens there. No request is repeated."""
    monkeypatch.setattr(RetryPolicy, "pause", lambda *_arguments, **_options: None)
    configuration = yaml.safe_load(cluster.kubeconfig.read_text())
    configuration["clusters"].append({"name": "gone", "cluster": {"server": "http://127.0.0.1:1"}})
    configuration["contexts"].append({"name": "gone", "context": {"cluster": "gone", "user": "me"}})
    cluster.kubeconfig.write_text(yaml.safe_dump(configuration))


def rows(text: str) -> dict[str, list[str]]:
    return {line.split()[0]: line.split()[1:] for line in text.splitlines()[2:] if line[:1].strip()}


@pytest.mark.usefixtures("cluster")
def test_each_cluster_has_a_row_and_its_document(zoneward: Commands) -> None:
    advice = zoneward("advise", *BOTH)
    note = "14 Services without EndpointSlices: for them, now is what Kubernetes would decide"
    assert (advice.status, advice.err) == (0, f"zoneward: here: {note}\nzoneward: there: {note}\n")
    assert rows(advice.out).keys() == {"here", "there"}
    assert rows(advice.out)["here"] == rows(advice.out)["there"], "advise reads all namespaces"
    check = zoneward("check", "-q", *BOTH)
    assert check.status == 0
    assert rows(check.out)["here"] != rows(check.out)["there"], "check reads the namespace of the context"
    report = zoneward("report", "-q", "-A", *BOTH, "--measured", MEASURED, "--price-per-gb", "0.01USD")
    assert rows(report.out)["here"] == rows(report.out)["there"]
    assert rows(report.out)["here"][:3] == ["8", "1,314", "13.1"]
    for command, kind, *more in (
        ("advise", "Advice", "-n", "payments"),
        ("check", "Check", "-A"),
        ("report", "Report", "-A", "--measured", str(MEASURED)),
    ):
        fleet = zoneward.json(command, "-q", *BOTH, *more)
        assert (fleet["apiVersion"], fleet["kind"]) == ("zoneward.dev/v1alpha1", f"{kind}List")
        alone = {name: zoneward.json(command, "-q", "--context", name, *more) for name in ("here", "there")}
        assert alone["here"]["kind"] == kind
        assert fleet["items"] == [{"context": name, **document} for name, document in alone.items()]


@pytest.mark.parametrize("command", [("advise",), ("check",), ("report", "--measured", str(MEASURED))])
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
