"""Findings as a table, as JSON, as SARIF and as a page."""

import json
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

import jsonschema
import pytest
from tests.report.simulated import NASTY

from zoneward.advice.findings.check_cluster import CheckedCluster, NotChecked, count_by_severity
from zoneward.advice.findings.codes import CLUSTER, CODES, SEVERITIES, Finding, FindingObject
from zoneward.advice.json_value import to_json
from zoneward.report.check_report import check_page, check_table, sarif_document
from zoneward.report.html import Source
from zoneward.report.terminal_text import render_text

SCHEMA: Final = Path(__file__).parent / "data" / "sarif-2.1.0-rtm.5.json"
SOURCE: Final = Source("a cluster", "2026-01-02 03:04Z", "1.2.3")
CONTROLS: Final = "cart\x1b[2J\x07\x9b31m\r\n\u202e"


def checked_of(*findings: Finding, not_checked: tuple[NotChecked, ...] = (), ignored: int = 0) -> CheckedCluster:
    in_order = sorted(findings, key=lambda finding: (SEVERITIES.index(finding.severity), finding.code))
    return CheckedCluster(tuple(in_order), count_by_severity(findings), ignored, not_checked, services=3, nodes=2)


def service_finding(code: str, name: str = "cart", message: str = "why", fix: str = "", command: str = "") -> Finding:
    return CODES[code].finding(FindingObject("Service", "shop", name), message, fix=fix, command=command)


EVERYTHING: Final = checked_of(
    CODES["ZW102"].finding(CLUSTER, "one"),
    *(service_finding(code, name, name, name) for code in CODES for name in (NASTY, CONTROLS, "", "x" * 2_000)),
    CODES["ZW501"].finding(FindingObject("Deployment", "shop", "cart"), "why", services=[("shop", "a")], asks=False),
    not_checked=(NotChecked(("ZW201", "ZW202"), f"no permission {NASTY}"),),
    ignored=4,
)


def table_of(checked: CheckedCluster, *, top: int = 5, width: int = 80) -> str:
    return render_text(check_table(checked, top=top), color=False, width=width, crop=False)


def test_findings_with_one_message_share_a_line() -> None:
    alike = [service_finding("ZW401", f"s{index}", "2 endpoints for 3 zones") for index in range(7)]
    own = service_finding("ZW301", fix="kubectl annotate service cart x=y")
    lines = [line for line in table_of(checked_of(own, *alike)).splitlines() if line]
    assert lines == [
        "ERROR ZW301 A value is misspelt",
        "  Service shop/cart: why",
        "    fix: kubectl annotate service cart x=y",
        "  docs/check.md#zw301",
        "WARNING ZW401 A Service is too small (7)",
        "  Service shop/s0, shop/s1, shop/s2, shop/s3, shop/s4 and 2 more: 2 endpoints",
        "  for 3 zones",
        "  fix: Add pods: at least one ready pod in each zone, or as many as the message",
        "  says. Or remove the setting.",
        "  docs/check.md#zw401",
        "1 error and 7 warnings in 3 Services and 2 Nodes.",
    ]


@pytest.mark.parametrize(("top", "lines"), [(1, 1), (3, 3), (0, 500)])
def test_top_limits_the_lines_of_a_code(top: int, lines: int) -> None:
    many = [service_finding("ZW302", f"s{index}", f"value {index}") for index in range(500)]
    text = table_of(checked_of(*many), top=top)
    assert text.count(": value ") == lines
    assert (f"and {500 - lines} more" in text) == (lines < 500)


@pytest.mark.parametrize("words", ["", "To keep the setting of Kubernetes and remove the rest: "])
def test_commands_stay_on_one_line(words: str) -> None:
    command = "kubectl -n shop annotate --overwrite service cart" + " service.kubernetes.io/topology-mode=Auto" * 3
    finding = service_finding("ZW305", fix=words, command=command)
    assert f"fix: {words}{command}\n" in table_of(checked_of(finding))
    assert f'{words}<span class="code">{command}</span>' in check_page(checked_of(finding), source=SOURCE)


def test_unchecked_and_ignored_are_shown() -> None:
    checked = checked_of(not_checked=(NotChecked(("ZW501",), "no Deployments"),), ignored=2)
    assert (
        table_of(checked) == "Not checked: ZW501: no Deployments\nNo findings in 3 Services and 2 Nodes; 2 ignored.\n"
    )


def test_the_json_has_the_shape_that_scripts_rely_on() -> None:
    document = json.loads(to_json(EVERYTHING))
    assert [finding for finding in document["findings"] if finding["object"]["kind"] == "Cluster"] == [
        {
            "code": "ZW102",
            "severity": "warning",
            "object": {"kind": "Cluster", "namespace": "", "name": ""},
            "title": "All nodes are in one zone",
            "message": "one",
            "fix": CODES["ZW102"].fix,
            "command": "",
            "docs": "docs/check.md#zw102",
            "services": [],
        }
    ]
    services = [finding["services"] for finding in document["findings"] if finding["code"] == "ZW501"]
    assert ["shop/a"] in services
    assert document["summary"] == EVERYTHING.summary
    assert (document["ignored"], document["notChecked"][0]["codes"]) == (4, ["ZW201", "ZW202"])


@pytest.mark.parametrize("checked", [EVERYTHING, checked_of()], ids=["everything", "nothing"])
def test_sarif_is_valid_and_has_all_findings(checked: CheckedCluster) -> None:
    document = json.loads(to_json(sarif_document(checked)))
    schema = json.loads(SCHEMA.read_text())
    jsonschema.validate(document, schema, cls=jsonschema.Draft4Validator)
    (run,) = document["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert rules == list(CODES)
    assert [rules[result["ruleIndex"]] for result in run["results"]] == [finding.code for finding in checked.findings]


def test_location_in_sarif_is_a_safe_uri() -> None:
    finding = CODES["ZW401"].finding(FindingObject("Service", "..", "/etc\x1b?#%"), "why")
    (result,) = sarif_document(checked_of(finding))["runs"][0]["results"]
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == "Service/_/%2Fetc%1B%3F%23%25"


def parsed(page: str) -> ElementTree.Element:
    """The page as XML, which it is, too: unclosed elements and unescaped text fail here."""
    return ElementTree.fromstring(page.partition("\n")[2])


def test_the_page_is_well_formed_and_has_a_row_for_each_finding() -> None:
    root = parsed(check_page(EVERYTHING, source=SOURCE))
    rows = [row for body in root.iter("tbody") for row in body.iter("tr")]
    assert len(rows) == len(EVERYTHING.findings)
    ids = [element.get("id") or "" for element in root.iter() if element.get("id")]
    links = [(element.get("href") or "")[1:] for element in root.iter("a")]
    assert sorted(ids) == sorted(set(links))


def test_page_loads_nothing_and_supports_dark_mode() -> None:
    page = check_page(EVERYTHING, source=SOURCE)
    assert "<script" not in page
    assert "http://" not in page.replace("http-equiv", "")
    assert "https://" not in page
    assert "prefers-color-scheme: dark" in page
    assert not {"<", ">", "&"} & set(page.partition("<style>")[2].partition("</style>")[0])
