"""Findings as the JSON that scripts rely on (``check -o json``)."""

from typing import Any

from zoneward.advice.findings.check_cluster import CheckedCluster
from zoneward.advice.findings.codes import SEVERITIES
from zoneward.report.plan_json import JsonView


class ObjectView(JsonView, frozen=True, gc=False):
    """``namespace`` and ``name`` are empty where the kind has none; the kind ``Cluster`` has neither."""

    kind: str
    namespace: str
    name: str


class FindingView(JsonView, frozen=True, gc=False):
    """One finding. ``services`` are those that it affects, as ``namespace/name``, where it is about something else."""

    code: str
    severity: str
    object: ObjectView
    title: str
    message: str
    fix: str
    docs: str
    services: tuple[str, ...]


class NotCheckedView(JsonView, frozen=True, gc=False):
    """Codes that could not be checked, and why."""

    codes: tuple[str, ...]
    reason: str


def check_document(checked: CheckedCluster) -> dict[str, Any]:
    """``{"findings": [...], "summary": {"error": 1, ...}, "ignored": 0, "notChecked": [...]}``."""
    return {
        "findings": [
            FindingView(
                code=each.code,
                severity=each.severity,
                object=ObjectView(kind=each.object.kind, namespace=each.object.namespace, name=each.object.name),
                title=each.title,
                message=each.message,
                fix=each.fix,
                docs=each.docs,
                services=tuple(f"{namespace}/{name}" for namespace, name in each.services),
            )
            for each in checked.findings
        ],
        "summary": {severity: checked.count(severity) for severity in SEVERITIES},
        "ignored": checked.ignored,
        "notChecked": [NotCheckedView(codes=each.codes, reason=each.reason) for each in checked.not_checked],
    }
