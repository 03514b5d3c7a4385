"""A fix in words, for every output of ``explain``."""

from collections.abc import Iterator

from zoneward.advice.explanation import FamilyExplanation
from zoneward.advice.fixes import Fix
from zoneward.routing.rules import counted, listed


def describe_fix(fix: Fix) -> str:
    """``2 more Pods in eu-1b``, ``trafficDistribution: PreferSameZone``."""
    change = fix.change
    if fix.kind == "label-node":
        nodes = tuple(sorted(change.zone_of_node))
        zones = sorted(set(change.zone_of_node.values()))
        where = f"in {', '.join(zones)}" if not fix.among else "in any zone"
        return f"zone label for {counted(len(nodes), 'node')} {where}: {listed(nodes)}"
    if fix.kind == "setting":
        more = f", and {_spread(fix)}" if change.pods else ""
        return f"{_setting(fix)}{more}"
    if fix.kind == "threshold":
        return fix.threshold or ""
    if fix.kind == "spread":
        return _spread(fix)
    if fix.kind == "move-pods":
        gone = {zone: -number for zone, number in change.pods.items() if number < 0}
        new = {zone: number for zone, number in change.pods.items() if number > 0}
        return f"move {counted(change.moved_pods, 'Pod')} out of {_located(gone)} to {_located(new)}"
    number = abs(fix.pods)
    word = "more" if fix.pods > 0 else "fewer"
    where = "in whichever zone" if fix.wherever else f"in {_located({z: abs(n) for z, n in change.pods.items()})}"
    return f"{counted(number, f'{word} Pod')} {where}"


def describe_cost(fix: Fix) -> str:
    """What it takes, in Pods, and what nobody checked."""
    cost = f"{fix.pods:+d} {'Pod' if abs(fix.pods) == 1 else 'Pods'}" if fix.pods else "no more Pods"
    return f"{cost}; volumes not checked" if fix.may_be_bound else cost


def describe_result(fix: Fix) -> str:
    """``72% in its zone, worst +8%``."""
    traffic = fix.family.traffic
    assert traffic is not None, "a fix is verified by its traffic"
    least = "at least " if fix.wherever or fix.kind == "spread" else ""
    share = "an unknown share" if traffic.in_zone is None else f"{least}{traffic.in_zone:.0%}"
    return f"{share} in its zone, worst +{traffic.max_overload:.0%}"


def describe_limits(family: FamilyExplanation) -> Iterator[str]:
    """Why some changes of Pods are no fix, and what fixes that change Pods were not checked against."""
    yield from family.limits
    if family.unchecked:
        parts = (f"{each.what} ({each.reason})" for each in family.unchecked)
        yield f"not checked for fixes that change Pods: {'; '.join(parts)}"


def _setting(fix: Fix) -> str:
    spec = fix.change.service_patch.get("spec") or {}
    for field in ("internalTrafficPolicy", "trafficDistribution"):
        if spec.get(field):
            return f"{field}: {spec[field]}"
    annotations = (fix.change.service_patch.get("metadata") or {}).get("annotations") or {}
    return ", ".join(f"{name.rpartition('/')[2]}: {value}" for name, value in annotations.items() if value is not None)


def _spread(fix: Fix) -> str:
    more = f"{counted(fix.pods, 'more Pod')}, " if fix.pods > 0 else ""
    return f"{more}Pods spread evenly over the zones"


def _zones(pods: dict[str, int]) -> str:
    return ", ".join(zone or "no zone" for zone in pods)


def _located(pods: dict[str, int]) -> str:
    if len(pods) == 1:
        return _zones(pods)
    return ", ".join(f"{zone or 'no zone'} ({number})" for zone, number in pods.items())
