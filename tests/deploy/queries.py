"""What the dashboards and rules of ``deploy/`` ask Prometheus for."""

import json
import re
from typing import Any, Final

import yaml
from tests.deploy.manifests import DEPLOY, ROOT

Object = dict[str, Any]
MONITORING: Final = DEPLOY / "helm" / "monitoring"
RULES: Final = (MONITORING / "rules.yaml", MONITORING / "alerts.yaml")
_METRIC: Final = re.compile(
    r"\b(up|(?:zoneward|endpoint_slice_controller|kubeproxy|process)[:_][\w:]+)(?:\{((?:\"[^\"]*\"|[^}\"])*)\})?"
)


def dashboards() -> dict[str, Object]:
    """By the name of the file."""
    return {path.stem: json.loads(path.read_text()) for path in sorted((MONITORING / "grafana").glob("*.json"))}


def panels(dashboard: Object) -> list[Object]:
    """Without the titles of rows."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def queries(dashboard: Object) -> list[str]:
    """Of its panels."""
    return [target["expr"] for panel in panels(dashboard) for target in panel["targets"]]


def variables(dashboard: Object) -> list[Object]:
    """Those with values that come from Prometheus."""
    return [variable for variable in dashboard["templating"]["list"] if variable["type"] == "query"]


def rules() -> list[Object]:
    """All that record a series, and all alerts."""
    return [rule for path in RULES for group in yaml.safe_load(path.read_text())["groups"] for rule in group["rules"]]


def documented_metrics() -> dict[str, set[str]]:
    """The metrics in the tables of the page about them, with their labels."""
    text = (ROOT / "docs" / "metrics-and-events.md").read_text()
    rows = re.findall(r"^\| `(\w+)` (?:counter|gauge|histogram) \|([^|]*)\|", text, re.MULTILINE)
    result = {name: set(re.findall(r"`(\w+)`", labels)) for name, labels in rows}
    # And the same as the row above.
    result["zoneward_meter_bytes_total"] |= result["zoneward_meter_connections_total"]
    return result


def metrics_of(expr: str) -> dict[str, set[str]]:
    """The metrics that an expression selects, as programs declare them, and the labels that it selects them by."""
    result: dict[str, set[str]] = {}
    for name, selector in _METRIC.findall(expr):
        labels = re.findall(r"(\w+)\s*[=!]~?\"", re.sub(r'"[^"]*"', '""', selector))
        result.setdefault(name.removesuffix("_bucket"), set()).update(labels)
    return result
