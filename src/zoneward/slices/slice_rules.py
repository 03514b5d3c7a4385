"""Rules of a decision that only the slices show."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from heapq import nsmallest

from zoneward.kube import names
from zoneward.kube.objects import EndpointPort, EndpointSlice, Service, is_ready
from zoneward.routing.rules import Rule, counted, listed
from zoneward.routing.selection.endpoint_selection import is_proxied
from zoneward.slices.packing import SliceChanges


def more_rules(
    service: Service,
    *,
    sizes: Iterable[tuple[tuple[EndpointPort, ...], int]],
    gone: Collection[str],
    refused: Collection[str] = (),
    changes: SliceChanges,
    others: Sequence[EndpointSlice],
    zone_hints: bool,
    node_hints: bool,
) -> tuple[Rule, ...]:
    """Rules that only the slices show.

    ``sizes``: how many endpoints serve which ports; ``gone`` names the Pods that are left out because their Node is
    gone, ``refused`` those of which no address may be in an EndpointSlice. ``zone_hints`` and ``node_hints``: whether
    the slices may hold any; where not, nobody looks.
    """
    rules = list(_target_rules(service, sizes))
    if gone:
        names_ = tuple(nsmallest(3, gone))
        detail = f"{counted(len(gone), 'pod')} left out: their node is gone ({listed(names_, number=len(gone))})"
        rules.append(Rule("pod-nodes", False, detail))
    if refused:
        pods = listed(tuple(nsmallest(3, refused)), number=len(refused))
        detail = f"{counted(len(refused), 'pod')} left out: no EndpointSlice may have such an address ({pods})"
        rules.append(Rule("pod-addresses", False, detail))
    if others:
        written = changes.create, changes.update, changes.unchanged
        endpoints = [each.endpoints or () for slices in written for each in slices]
        hinted = zone_hints and any(one.hints for each in endpoints for one in each)
        nodes = node_hints and any(one.hints and one.hints.for_nodes for each in endpoints for one in each)
        rules.extend(others_rules(others, hinted=hinted, nodes=nodes))
    if service.spec.internal_traffic_policy == "Local":
        rules.append(
            Rule(
                "internal-traffic-policy",
                False,
                "internalTrafficPolicy is Local: hints do not matter inside the cluster",
            )
        )
    if not is_proxied(service):
        rules.append(
            Rule("proxied", False, "headless: clients choose among all addresses, hints are for DNS and others")
        )
    return tuple(rules)


def _target_rules(service: Service, sizes: Iterable[tuple[tuple[EndpointPort, ...], int]]) -> Iterator[Rule]:
    """Ports that some Pods do not serve, because they have no container port of the name that the target has."""
    served = [({(each.name or "", each.protocol or "TCP") for each in ports}, number) for ports, number in sizes]
    for port in service.spec.ports or ():
        key = (port.name, port.protocol)
        without = sum(number for keys, number in served if key not in keys)
        if without:
            detail = f"{counted(without, 'endpoint')} without a target for port {port.name or port.port}"
            yield Rule("target-ports", False, f"{detail}: no container port is called {port.target_port!r}")


def others_rules(others: Sequence[EndpointSlice], *, hinted: bool = True, nodes: bool = False) -> tuple[Rule, ...]:
    """Slices of others count too, and one ready endpoint without hints voids all hints (KEP-2433 § Observability)."""
    if not others:
        return ()
    where = f"{listed(tuple(sorted(each.metadata.name for each in others)))} managed by {listed(managers(others))}"
    if hinted and any(_voids_hints(each, nodes=nodes) for each in others):
        detail = f"{where}: left alone; endpoints without such hints there void those of the Service"
        return (Rule("slices-of-others", False, detail),)
    return (Rule("slices-of-others", True, f"{where}: left alone, they count in selection"),)


def _voids_hints(each: EndpointSlice, *, nodes: bool) -> bool:
    """Whether a ready endpoint of the slice says nothing about zones, or ``nodes``: proxies then heed no such hint."""
    for endpoint in each.endpoints or ():
        hints = endpoint.hints
        if is_ready(endpoint) and not (hints and (hints.for_nodes if nodes else hints.for_zones)):
            return True
    return False


def managers(slices: Iterable[EndpointSlice]) -> tuple[str, ...]:
    """Who says to manage some slices."""
    found = {(each.metadata.labels or {}).get(names.MANAGED_BY_LABEL) or "nobody named" for each in slices}
    return tuple(sorted(found))
