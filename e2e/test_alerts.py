"""Alerts about meters fire for the node that has the problem, and for no other: as promtool evaluates them."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

from e2e.prometheus import PACKAGE
from tests.deploy.queries import RULES, rules

STEADY: Final = {
    "up": 1,
    "zoneward_meter_cache_synced": 1,
    "zoneward_meter_watch_trouble_seconds": 0,
    "zoneward_meter_accounting": 1,
    "zoneward_meter_conntrack_entries": 700,
    "zoneward_meter_conntrack_limit": 1000,
}
GROWING: Final = ("zoneward_meter_lost_messages_total", "zoneward_meter_unlisted_connections_total")
TROUBLES: Final = {
    "ZonewardMeterDown": {"up": "0x60"},
    "ZonewardMeterNotSynced": {"zoneward_meter_cache_synced": "0x60"},
    "ZonewardMeterWatchStale": {"zoneward_meter_watch_trouble_seconds": "0+60x60"},
    "ZonewardMeterMessagesLost": {"zoneward_meter_lost_messages_total": "0+3x60"},
    "ZonewardMeterSeriesLimitReached": {"zoneward_meter_unlisted_connections_total": "0+3x60"},
    "ZonewardMeterNoBytes": {"zoneward_meter_accounting": "0x60"},
    "ZonewardMeterConntrackNearlyFull": {"zoneward_meter_conntrack_entries": "950x60"},
}
"""By alert, what the node reports that it is about."""


def _series(
    cluster: str, instance: str, trouble: dict[str, str], *, job: str = "zoneward-meter"
) -> list[dict[str, str]]:
    """Of an hour, a sample a minute."""
    usual = {name: f"{value}x60" for name, value in STEADY.items()} | dict.fromkeys(GROWING, "7x60")
    labels = f'job="{job}", namespace="zoneward-meter", cluster="{cluster}", instance="{instance}"'
    return [{"series": f"{name}{{{labels}}}", "values": values} for name, values in (usual | trouble).items()]


def test_meter_alerts_fire_only_for_the_node_with_the_problem(tmp_path: Path) -> None:
    assert set(TROUBLES) == {rule["alert"] for rule in rules() if rule.get("alert", "").startswith("ZonewardMeter")}
    series = [*_series("one", "fine", {})]
    for alert, trouble in TROUBLES.items():
        series += _series("one", alert, trouble)
    # Where no node counts bytes, nobody has asked for them.
    series += _series("without-bytes", "other", {"zoneward_meter_accounting": "0x60"})
    # Any Pod that is scraped can say that it is a meter, and in trouble.
    series += _series(
        "one", "forged", {name: values for series in TROUBLES.values() for name, values in series.items()}, job="pods"
    )
    expr = 'count by (alertname, instance) (ALERTS{alertname=~"ZonewardMeter.+", alertstate="firing"})'
    firing: list[dict[str, Any]] = [
        {"labels": f'{{alertname="{alert}", instance="{alert}"}}', "value": 1} for alert in TROUBLES
    ]
    expected = {"expr": expr, "eval_time": "45m", "exp_samples": firing}
    test = {"interval": "1m", "input_series": series, "promql_expr_test": [expected]}
    file = tmp_path / "alerts.json"
    file.write_text(json.dumps({"rule_files": [str(RULES[1])], "evaluation_interval": "1m", "tests": [test]}))
    program = shutil.which("promtool")
    assert program is not None, f"the end-to-end tests need promtool (Debian: apt-get install {PACKAGE})"
    done = subprocess.run([program, "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
