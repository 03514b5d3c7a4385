"""What a step expects, beside what was found; and what holds after every step of every scenario."""

from collections import Counter
from dataclasses import fields, replace
from typing import Any

from msgspec import UNSET
from tests.scenarios.cluster import OTHER
from tests.scenarios.history import APP, addresses_of, is_ready
from tests.scenarios.observed import Found
from tests.scenarios.scenario import Expectation, Seen, Step

from zoneward.kube.names import MANAGED_BY_LABEL
from zoneward.report.route_report import PortRoute
from zoneward.routing.configuration import FeatureGates
from zoneward.routing.selection.endpoint_selection import CONSUMERS

_GATES = {each.name.replace("_", ""): each.name for each in fields(FeatureGates)}


def check(found: Found, step: Step, where: str, *, at_work: bool) -> None:
    where = f"{where}, {found.service.metadata.name}"
    expected = step.expect.get(found.service.metadata.name, Expectation())
    changed = {_GATES[name.lower()]: on for name, on in step.proxy_gates.items()}
    gates = replace(found.observed.configuration.gates, **changed)
    if at_work:
        _check_rest(found, where)
    _check_proxies(found, gates, where)
    named = {name: getattr(expected, name) for name in expected.__struct_fields__ if name not in ("events", "route")}
    wrong = {
        name: f"{getattr(found, name)!r}, expected {wanted!r}"
        for name, wanted in named.items()
        if wanted is not UNSET and not _agree(name, getattr(found, name), wanted)
    }
    assert not wrong, f"{where}: {wrong}, events {found.events}"
    _check_events(found.events, expected, where)
    for consumer, places in expected.route.items():
        for place, seen in places.items():
            _check_route(found.route(consumer, place, gates), seen, f"{where}: {consumer} in {place}")


def _agree(name: str, got: Any, wanted: Any) -> bool:
    if name in ("writes", "moved"):
        return bool(got <= wanted)
    if not (isinstance(got, dict) and isinstance(wanted, dict)):
        return bool(got == wanted)
    return got.keys() == wanted.keys() and all(number in _range(wanted[place]) for place, number in got.items())


def _range(figure: int | str) -> range:
    least, _, most = str(figure).partition("-")
    return range(int(least), int(most or least) + 1)


def _check_events(got: list[str], expected: Expectation, where: str) -> None:
    """Each that is named is the beginning of one that was told, and no other was.

    With a star it may be told more than once, with a question mark any number of times.
    """
    rest = list(got)
    for wanted in expected.events:
        mark, what_is_told = (wanted[0], wanted[2:]) if wanted[:2] in ("* ", "? ") else ("", wanted)
        alike = [what for what in rest if what.startswith(what_is_told)]
        assert alike or mark == "?", f"{where}: events {got}, expected {expected.events}"
        for what in alike if mark else alike[:1]:
            rest.remove(what)
    assert not rest, f"{where}: events {got}, expected {expected.events}"


def _check_route(route: PortRoute, seen: int | Seen, where: str) -> None:
    wanted = Seen(cluster=seen) if isinstance(seen, int) else seen
    got = {"cluster": len(route.cluster or ()), "local": len(route.local or ()), "rule": str(route.rule)}
    for name, value in got.items():
        assert getattr(wanted, name) in (UNSET, value), f"{where}: {name} {value!r}, expected {wanted!r}"


def _check_rest(found: Found, where: str) -> None:
    """Every ready Pod is listed once, by slices that a plan made anew would leave as they are."""
    observed, service = found.observed, found.service
    addresses = Counter(
        (one.addresses or ("",))[0]
        for each, one in found.ready
        if (each.metadata.labels or {}).get(MANAGED_BY_LABEL) != OTHER
    )
    pods = {
        address
        for each in observed.lists.pods
        for address in addresses_of(each)
        if is_ready(each)
        and each["metadata"]["labels"].get(APP) == service.metadata.name
        and each["spec"]["nodeName"] in observed.snapshot.node_zones
        and ("IPv6" if ":" in address else "IPv4") in (service.spec.ip_families or ())
    }
    assert set(addresses.values()) <= {1}, f"{where}: listed twice {addresses.most_common(3)}"
    for family in found.plan.families:
        changes = family.changes
        left = len(changes.create), len(changes.update), len(changes.delete)
        assert left == (0, 0, 0), f"{where}: a new plan would create, update and delete {left}"
    assert addresses.keys() == pods, f"{where}: listed {sorted(addresses)}, ready {sorted(pods)}"


def _check_proxies(found: Found, gates: FeatureGates, where: str) -> None:
    """No proxy of any age is left with nothing while there is a ready endpoint."""
    for consumer in CONSUMERS if found.ready else ():
        for place in found.observed.places():
            route = found.route(consumer, place, gates)
            assert route.cluster or route.cluster is None, f"{where}: {consumer} on {place} has no endpoint"
