"""Dashboards are what their program writes, and they and the recording rules ask for metrics that exist."""

import itertools
import json
import re
from typing import Final

import pytest
from deploy.make_dashboards import FOLDER
from deploy.make_dashboards import dashboards as written
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
from tests.deploy.manifests import ROOT
from tests.deploy.queries import dashboards, documented_metrics, metrics_of, panels, queries, rules, variables

PAGE: Final = (ROOT / "docs" / "dashboards.md").read_text()
ADDED: Final = {"cluster", "instance", "job"}
"""Labels that Prometheus adds."""


def known() -> dict[str, set[str]]:
    """Metrics with their labels: those that programs have, by the tables that other tests compare with them, those of
    every process, and those that rules record."""
    of_processes: dict[str, set[str]] = {
        name: set() for name in ("process_cpu_seconds_total", "process_resident_memory_bytes", "up")
    }
    route = {"namespace", "service", "from_zone", "to_zone"}
    return documented_metrics() | of_processes | dict.fromkeys(recorded(), route)


def recorded() -> list[str]:
    return [rule["record"] for rule in rules() if "record" in rule]


def test_the_dashboard_files_are_up_to_date() -> None:
    assert {path.name: path.read_text() for path in FOLDER.iterdir()} == written()


def test_the_sdk_of_grafana_reads_the_files_and_loses_nothing() -> None:
    register_default_plugins()
    for path in FOLDER.iterdir():
        read = Dashboard.from_json(json.loads(path.read_text()))
        assert json.loads(JSONEncoder().encode(read)) == json.loads(path.read_text()), path.name


@pytest.mark.parametrize("name", dashboards())
def test_every_query_uses_metrics_and_labels_that_exist(name: str) -> None:
    dashboard, metrics = dashboards()[name], known()
    asked = queries(dashboard) + [
        re.sub(r"^label_values\(", "", variable["query"]) for variable in variables(dashboard)
    ]
    for expr in asked:
        result = metrics_of(expr)
        assert result or "__name__=~" in expr, expr
        for metric, labels in result.items():
            assert labels <= metrics[metric] | ADDED, (expr, metric)


@pytest.mark.parametrize("name", dashboards())
def test_legends_use_labels_that_their_series_have(name: str) -> None:
    metrics = known()
    for target in (target for panel in panels(dashboards()[name]) for target in panel["targets"]):
        labels = {"le", *ADDED}.union(*(metrics[metric] for metric in metrics_of(target["expr"])))
        grouped = re.findall(r"\b(?:by|on|group_left) \(([^)]*)\)", target["expr"])
        grouping = {label for label_list in grouped for label in label_list.split(", ")}
        assert grouping <= labels, target
        assert set(re.findall(r"{{(\w+)}}", target.get("legendFormat", ""))) <= (grouping or labels), target


def test_rules_and_alerts_use_metrics_and_labels_that_exist() -> None:
    metrics = known()
    for rule in rules():
        selected = metrics_of(rule["expr"])
        assert selected, rule
        for metric, labels in selected.items():
            assert labels <= metrics[re.sub("_(count|sum)$", "", metric)] | ADDED, (rule, metric)
        if "alert" in rule:
            assert {"summary", "description"} <= rule["annotations"].keys(), rule["alert"]
            assert rule["labels"]["severity"] in ("critical", "warning", "info"), rule["alert"]


def test_metrics_of_programs_are_selected_by_their_job() -> None:
    """Any Pod that Prometheus scrapes can have metrics of these names."""
    exprs = [rule["expr"] for rule in rules()]
    for dashboard in dashboards().values():
        exprs += queries(dashboard) + [variable["query"] for variable in variables(dashboard)]
    for expr in exprs:
        assert "{__name__" not in expr
        for metric, labels in metrics_of(expr).items():
            assert "job" in labels or metric.startswith("zoneward:"), (expr, metric)


def test_every_recorded_series_has_one_rule_a_reader_and_documentation() -> None:
    names = recorded()
    read = {metric for dashboard in dashboards().values() for expr in queries(dashboard) for metric in metrics_of(expr)}
    read |= {metric for rule in rules() for metric in metrics_of(rule["expr"])}
    assert set(names) <= read
    assert re.findall(r"^\| `(zoneward:\S+)` \|", PAGE, re.MULTILINE) == names


@pytest.mark.parametrize("name", dashboards())
def test_every_panel_has_a_description_and_a_position(name: str) -> None:
    dashboard = dashboards()[name]
    assert dashboard["uid"] == f"zoneward-{name}"
    assert f"`{name}.json`" in PAGE
    names = {variable["name"] for variable in dashboard["templating"]["list"]}
    for variable in (*variables(dashboard), *panels(dashboard)):
        assert variable["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    for panel in panels(dashboard):
        assert panel["title"], panel
        assert panel["description"].endswith("."), panel["title"]
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"]) > 0
        assert set(re.findall(r"\$(\w+)", str(panel["targets"]))) <= {*names, "__rate_interval"}
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    for one, other in itertools.combinations((panel["gridPos"] for panel in dashboard["panels"]), 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        assert beside or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in dashboard["panels"])


def test_every_alert_leads_to_its_row_in_the_page_about_alerts() -> None:
    page = (ROOT / "docs" / "metrics-and-events.md").read_text()
    alerts = [rule for rule in rules() if "alert" in rule]
    assert alerts
    for alert in alerts:
        address, _, text = alert["annotations"]["runbook_url"].partition("#alerts:~:text=")
        assert address == "https://github.com/zoneward/zoneward/blob/main/docs/metrics-and-events.md"
        assert text == alert["alert"]
        assert f"| `{text}` |" in page
