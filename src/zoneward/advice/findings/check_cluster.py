"""All findings about a cluster, sorted, less those that are ignored, and what could not be checked."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from zoneward.advice.findings.cluster_view import ClusterView
from zoneward.advice.findings.codes import CODES, SEVERITIES, Finding, Severity
from zoneward.advice.findings.nodes import node_findings
from zoneward.advice.findings.proxies import proxy_findings
from zoneward.advice.findings.services import service_findings
from zoneward.advice.findings.settings import setting_findings
from zoneward.advice.findings.slices import slice_findings
from zoneward.advice.findings.workloads import workload_findings
from zoneward.kube.objects import ObjectKey

_SUBJECTS = (
    node_findings,
    proxy_findings,
    setting_findings,
    service_findings,
    workload_findings,
    slice_findings,
)
"""A function over a `ClusterView` for each hundred of codes."""


@dataclass(frozen=True, slots=True)
class Ignored:
    """Findings to leave out: all with a code, or those that affect no Service but this one."""

    code: str
    key: ObjectKey | None = None


@dataclass(frozen=True, slots=True)
class NotChecked:
    """Codes of which nothing is known, and why, in a phrase."""

    codes: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class CheckedCluster:
    """What a check found: the worst first, then by code and object.

    ``ignored`` counts what was left out, ``services`` and ``nodes`` what was looked at.
    """

    findings: tuple[Finding, ...]
    not_checked: tuple[NotChecked, ...]
    ignored: int
    services: int
    nodes: int

    def count(self, severity: Severity) -> int:
        return sum(each.severity == severity for each in self.findings)

    def has_at_least(self, severity: Severity) -> bool:
        """Whether a finding is as bad as that, or worse."""
        return any(self.count(each) for each in SEVERITIES[: SEVERITIES.index(severity) + 1])


def check_cluster(view: ClusterView, *, ignored: Iterable[Ignored] = ()) -> CheckedCluster:
    """Every finding about the nodes, and about the Services of the view with what belongs to them."""
    rules = tuple(ignored)
    kept, left_out = [], 0
    for subject in _SUBJECTS:
        for finding in subject(view):
            without = _without_ignored(finding, rules)
            if without is None:
                left_out += 1
            else:
                kept.append(without)
    rank = {severity: number for number, severity in enumerate(SEVERITIES)}
    kept.sort(key=lambda each: (rank[each.severity], each.code, each.object.namespace, each.object.name))
    return CheckedCluster(tuple(kept), _not_checked(view), left_out, services=len(view.services), nodes=len(view.nodes))


def _without_ignored(finding: Finding, rules: Iterable[Ignored]) -> Finding | None:
    """The finding with the Services that are left; None where it is ignored."""
    about = finding.object
    affected = finding.services or (((about.namespace, about.name),) if about.kind == "Service" else ())
    left = affected
    for rule in rules:
        if rule.code == finding.code:
            if rule.key is None:
                return None
            left = tuple(each for each in left if each != rule.key)
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
