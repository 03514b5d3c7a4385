"""Findings as SARIF 2.1.0 (``check -o sarif``), which code scanning services and editors read.

A finding is about an object of a cluster and not about a line of a file, so that its place is a logical location. Many
readers insist on a file as well: they get one that is called like the object, ``Service/shop/cart``.
"""

from typing import Any, Final
from urllib.parse import quote

from zoneward import __version__
from zoneward.advice.findings.check_cluster import CheckedCluster, NotChecked
from zoneward.advice.findings.codes import CODES, Finding, FindingObject, Severity
from zoneward.kube.safe_text import printable

VERSION: Final = "2.1.0"
_LEVELS: Final[dict[Severity, str]] = {"error": "error", "warning": "warning", "info": "note"}


def sarif_document(checked: CheckedCluster) -> dict[str, Any]:
    """A log with one run, which has all codes as rules, and what could not be checked as notifications."""
    index = {code: number for number, code in enumerate(CODES)}
    return {
        "version": VERSION,
        "runs": [
            {
                "tool": {"driver": {"name": "zoneward", "version": __version__, "rules": _rules()}},
                "invocations": [
                    {
                        "executionSuccessful": True,
                        "toolExecutionNotifications": [_notification(each) for each in checked.not_checked],
                    }
                ],
                "results": [_result(each, index[each.code]) for each in checked.findings],
            }
        ],
    }


def _notification(found: NotChecked) -> dict[str, Any]:
    return {"level": "note", "message": {"text": printable(f"not checked: {', '.join(found.codes)}: {found.reason}")}}


def _rules() -> list[dict[str, Any]]:
    return [
        {
            "id": code.code,
            "shortDescription": {"text": code.title},
            "help": {"text": f"{code.fix} ({code.docs})"},
            "defaultConfiguration": {"level": _LEVELS[code.severity]},
        }
        for code in CODES.values()
    ]


def _result(finding: Finding, rule: int) -> dict[str, Any]:
    place = _place(finding.object)
    location = {"name": printable(finding.object.name or finding.object.kind), "fullyQualifiedName": place}
    return {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": _LEVELS[finding.severity],
        "message": {"text": printable(f"{finding.object}: {finding.message}. Fix: {finding.fix}")},
        "locations": [
            {
                "physicalLocation": {"artifactLocation": {"uri": place}},
                "logicalLocations": [{**location, "kind": "resource"}],
            }
        ],
        "partialFingerprints": {"codeAndObject/v1": f"{finding.code}/{place}"},
    }


def _place(about: FindingObject) -> str:
    """``Service/shop/cart``, as a relative URI. No part of it leads upwards."""
    parts = (part for part in (about.kind, about.namespace, about.name) if part)
    return "/".join(quote(part, safe="", errors="replace") if part.strip(".") else "_" for part in parts)
