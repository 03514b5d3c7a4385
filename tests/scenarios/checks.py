"""What a step expects, beside what was found; and what holds after every step of every scenario."""

from collections import Counter
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from msgspec import UNSET
from tests.scenarios.cluster import OTHER
from tests.scenarios.history import APP, addresses_of, is_ready
from tests.scenarios.observed import Observed, own_condition
from tests.scenarios.scenario import NONE, Expectation, Seen, Step

from zoneward.kube.names import APPROACH_ANNOTATION, MANAGED_BY_LABEL
from zoneward.report.route_report import PortRoute
from zoneward.routing.configuration import FeatureGates
from zoneward.routing.selection.endpoint_selection import CONSUMERS

_NO_EXPECTATION: Final = Expectation()
_AT_MOST: Final = ("writes", "moved")


@dataclass(frozen=True, slots=True)
class Found:
    """One Service after a step. ``moved``: endpoints that were there before and serve other zones now."""

    observed: Observed
    name: str
    events: list[tuple[str, str]]
    writes: int
    moved: int
    at_work: bool


def check(found: Found, step: Step, where: str) -> None:
    where = f"{where}, {found.name}"
    expected = step.expect.get(found.name, _NO_EXPECTATION)
    gates = replace(found.observed.configuration.gates, **{_snake(name): on for name, on in step.proxy_gates.items()})
    if found.at_work:
        _check_rest(found, where)
    _check_proxies(found, gates, where)
    wrong = {
        name: f"{got!r}, expected {wanted!r}"
        for name, wanted in _named(expected).items()
        if not _agree(name, got := _got(found, name), wanted)
    }
    assert not wrong, f"{where}: {wrong}, events {[what for _, what in found.events]}"
    _check_events(found, expected, where)
    for consumer, places in expected.route.items():
        for place, seen in places.items():
            route = found.observed.route(found.name, consumer, place, gates)
            _check_route(route, seen, f"{where}: {consumer} in {place}")


def _named(expected: Expectation) -> dict[str, Any]:
    found = {name: getattr(expected, name) for name in expected.__struct_fields__ if name not in ("events", "route")}
    return {name: value for name, value in found.items() if value is not UNSET}


def _agree(name: str, got: Any, wanted: Any) -> bool:
    if name in _AT_MOST:
        return bool(got <= wanted)
    if not (isinstance(got, dict) and isinstance(wanted, dict)):
        return bool(got == wanted)
    return got.keys() == wanted.keys() and all(number in _range(wanted[place]) for place, number in got.items())


def _range(figure: int | str) -> range:
    least, _, most = str(figure).partition("-")
    return range(int(least), int(most or least) + 1)


def _got(found: Found, name: str) -> Any:
    observed, service = found.observed, found.name
    match name:
        case "approach":
            written = {(each.metadata.annotations or {}).get(APPROACH_ANNOTATION) for each in observed.slices(service)}
            return written.pop() if len(written) == 1 else sorted(map(str, written))
        case "reason":
            return "+".join(sorted({family.decision.reason for family in observed.plans[service].families}))
        case "endpoints":
            return len(observed.ready(service))
        case "hints":
            return observed.hints(service) or NONE
        case "node_hints":
            return observed.hints(service, nodes=True) or NONE
        case "groups":
            return observed.groups(service) or NONE
        case "own_zone":
            return observed.own_zone(service)
        case "slices":
            return len(observed.slices(service))
        case "managers":
            return sorted({(each.metadata.labels or {}).get(MANAGED_BY_LABEL, "") for each in observed.slices(service)})
        case "accepted":
            return own_condition(observed, service)[0]
        case "programmed":
            return own_condition(observed, service)[1]
        case _:
            return getattr(found, name)


def _check_events(found: Found, expected: Expectation, where: str) -> None:
    """Each that is named is the beginning of one that was told, and no other was.

    With a star it may be told more than once, with a question mark any number of times.
    """
    got = [what for service, what in found.events if service == found.name]
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
    for name, got in (
        ("cluster", len(route.cluster or ())),
        ("local", len(route.local or ())),
        ("rule", str(route.rule)),
    ):
        value = getattr(wanted, name)
        assert value is UNSET or got == value, f"{where}: {name} {got!r}, expected {value!r}"


def _check_rest(found: Found, where: str) -> None:
    """Every ready Pod is listed once, by slices that a plan made anew would leave as they are."""
    observed = found.observed
    service = observed.service(found.name)
    addresses = Counter(
        (one.addresses or ("",))[0]
        for each, one in observed.ready(found.name)
        if (each.metadata.labels or {}).get(MANAGED_BY_LABEL) != OTHER
    )
    pods = {
        address
        for each in observed.lists.pods
        for address in addresses_of(each)
        if is_ready(each)
        and each["metadata"]["labels"].get(APP) == found.name
        and each["spec"]["nodeName"] in observed.snapshot.node_zones
        and ("IPv6" if ":" in address else "IPv4") in (service.spec.ip_families or ())
    }
    twice = sorted(address for address, number in addresses.items() if number > 1)
    assert not twice, f"{where}: listed twice {twice}"
    for family in observed.plans[found.name].families:
        changes = family.changes
        left = len(changes.create), len(changes.update), len(changes.delete)
        assert left == (0, 0, 0), f"{where}: a new plan would create, update and delete {left}"
    assert addresses.keys() == pods, f"{where}: listed {sorted(addresses)}, ready {sorted(pods)}"


def _check_proxies(found: Found, gates: FeatureGates, where: str) -> None:
    """No proxy of any age is left with nothing while there is a ready endpoint."""
    if not found.observed.ready(found.name):
        return
    for consumer in CONSUMERS:
        for place in found.observed.places():
            route = found.observed.route(found.name, consumer, place, gates)
            assert route.cluster or route.cluster is None, f"{where}: {consumer} on {place} has no endpoint"


def _snake(gate: str) -> str:
    found = {each.name.replace("_", ""): each.name for each in fields(FeatureGates)}
    return found[gate.lower()]
