"""All findings about a cluster, sorted, less those that are ignored, and what could not be checked."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from msgspec.structs import replace

from zoneward.advice.findings.cluster_view import ClusterView
from zoneward.advice.findings.codes import CODES, SEVERITIES, Finding, Severity
from zoneward.advice.findings.nodes import node_findings, proxy_findings
from zoneward.advice.findings.services import service_findings
from zoneward.advice.findings.settings import setting_findings
from zoneward.advice.findings.slices import overlay_findings, slice_findings
from zoneward.advice.findings.workloads import workload_findings
from zoneward.advice.json_value import JsonValue

_SUBJECTS = (
    node_findings,
    proxy_findings,
    setting_findings,
    service_findings,
    workload_findings,
    slice_findings,
    overlay_findings,
)
"""Functions over a `ClusterView`; the last two have the codes 6xx."""


@dataclass(frozen=True, slots=True)
class Ignored:
    """Findings to leave out: all with a code, or those that affect no Service except this one (``namespace/name``)."""

    code: str
    service: str | None = None


class NotChecked(JsonValue, frozen=True, gc=False):
    """Codes that could not be checked, and why, in a phrase."""

    codes: tuple[str, ...]
    reason: str


class CheckedCluster(JsonValue, frozen=True, gc=False):
    """The document of ``check -o json``: the worst findings first, then by code and object.

    ``summary`` counts them by severity, ``ignored`` those that were left out, ``services`` and ``nodes`` the objects
    that were checked.
    """

    findings: tuple[Finding, ...]
    summary: dict[Severity, int]
    ignored: int
    not_checked: tuple[NotChecked, ...]
    services: int
    nodes: int

    def has_at_least(self, severity: Severity) -> bool:
        """Whether a finding is as bad as that, or worse."""
        return any(self.summary[worse] for worse in SEVERITIES[: SEVERITIES.index(severity) + 1])


def check_cluster(view: ClusterView, *, ignored: Iterable[Ignored] = ()) -> CheckedCluster:
    """Every finding about the nodes, and about the Services of the view with what belongs to them."""
    rules = tuple(ignored)
    findings: list[Finding] = []
    left_out = 0
    for subject in _SUBJECTS:
        for finding in subject(view):
            rest = _without_ignored(finding, rules)
            if rest is None:
                left_out += 1
            else:
                findings.append(rest)
    findings.sort(
        key=lambda finding: (
            SEVERITIES.index(finding.severity),
            finding.code,
            finding.object.namespace,
            finding.object.name,
        )
    )
    return CheckedCluster(
        tuple(findings),
        count_by_severity(findings),
        left_out,
        _not_checked(view),
        services=len(view.services),
        nodes=len(view.nodes),
    )


def count_by_severity(findings: Iterable[Finding]) -> dict[Severity, int]:
    counts = Counter(finding.severity for finding in findings)
    return {severity: counts[severity] for severity in SEVERITIES}


def _without_ignored(finding: Finding, rules: Iterable[Ignored]) -> Finding | None:
    """The finding with the Services that are left; None where it is ignored."""
    affected = left = finding.affected
    for rule in rules:
        if rule.code == finding.code:
            if rule.service is None:
                return None
            left = tuple(service for service in left if service != rule.service)
    if left == affected:
        return finding
    return replace(finding, services=left) if left else None


def _not_checked(view: ClusterView) -> tuple[NotChecked, ...]:
    """By what is lacking first, each code once."""
    by_reason: dict[str, list[str]] = {}
    for code in CODES.values():
        reason = next((view.lacking[need] for need in code.needs if need in view.lacking), None)
        if reason is not None:
            by_reason.setdefault(reason, []).append(code.code)
    return tuple(NotChecked(tuple(codes), reason) for reason, codes in by_reason.items())
