"""Findings as SARIF 2.1.0 (``check -o sarif``), which code scanning services and editors read.

A finding is about an object of a cluster and not about a line of a file, so it has a logical location. Many readers
need a file, too: they get one with the name of the object, ``Service/shop/cart``.
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
    index = {code: position for position, code in enumerate(CODES)}
    return {
        "version": VERSION,
        "runs": [
            {
                "tool": {"driver": {"name": "zoneward", "version": __version__, "rules": _rules()}},
                "invocations": [
                    {
                        "executionSuccessful": True,
                        "toolExecutionNotifications": [_notification(missing) for missing in checked.not_checked],
                    }
                ],
                "results": [_result(finding, index[finding.code]) for finding in checked.findings],
            }
        ],
    }


def _notification(missing: NotChecked) -> dict[str, Any]:
    text = f"not checked: {', '.join(missing.codes)}: {missing.reason}"
    return {"level": "note", "message": {"text": printable(text)}}


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
    uri = _uri(finding.object)
    location = {"name": printable(finding.object.name or finding.object.kind), "fullyQualifiedName": uri}
    return {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": _LEVELS[finding.severity],
        "message": {"text": printable(f"{finding.object}: {finding.message}. Fix: {finding.fix}")},
        "locations": [
            {
                "physicalLocation": {"artifactLocation": {"uri": uri}},
                "logicalLocations": [{**location, "kind": "resource"}],
            }
        ],
        "partialFingerprints": {"codeAndObject/v1": f"{finding.code}/{uri}"},
    }


def _uri(about: FindingObject) -> str:
    """``Service/shop/cart``, as a relative URI. No part of it leads to a parent folder."""
    parts = (part for part in (about.kind, about.namespace, about.name) if part)
    return "/".join(quote(part, safe="", errors="replace") if part.strip(".") else "_" for part in parts)
