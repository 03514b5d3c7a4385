"""The page about the node proxy has the lines of its log, its maps and sets, and its ports."""

import re
from pathlib import Path

import zoneward
from zoneward.proxy.proxy_configuration import DEFAULT_PORT, HEALTHZ_PORT
from zoneward.proxy.ruleset.base_rules import RulesetOptions, base_sets

SOURCE = Path(zoneward.__file__).parent
PAGE = (Path(__file__).parents[2] / "docs" / "run-the-proxy.md").read_text()
_SAID = re.compile(r"\b_?log\.(?:info|warning|error)\(\s*\"([^\"]+)\"")
ELSEWHERE = {
    "a list or watch broke off",
    "an Event could not be written",
    "a request could not be answered",
    "ends at once",
}
"""As of the controller."""


def section(heading: str) -> str:
    return PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def test_the_page_has_every_line_of_the_log() -> None:
    files = [*sorted((SOURCE / "proxy").rglob("*.py")), SOURCE / "cli" / "proxy.py"]
    said = {line for file in files for line in _SAID.findall(file.read_text())}
    assert "all is in the kernel" in said
    told = set(re.findall(r"`([^`\n]+)`", "\n".join(re.findall(r"^\| .*", section("Troubleshooting"), re.MULTILINE))))
    assert {line for line in said if line.split(":")[0] + ": ..." not in told} - ELSEWHERE - told == set()


def test_the_table_of_rules_has_every_map_and_set_and_no_other() -> None:
    there = set(base_sets("ip", RulesetOptions(count_connections=True)))
    table = section("How it works")
    rows = [row for row in re.findall(r"^\| (`.*)", table, re.MULTILINE) if "|" in row]
    told = {name for row in rows for name in re.findall(r"`([a-z-]+)`", row)}
    assert told == there


def test_ports_are_the_defaults() -> None:
    assert f"`127.0.0.1:{DEFAULT_PORT}` by default" in section("Status")
    assert f"`:{HEALTHZ_PORT}`" in section("Health checks for load balancers")
