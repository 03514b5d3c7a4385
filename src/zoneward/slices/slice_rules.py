"""Rules of a decision that only the Pods' ports and the slices show: `zoneward explain` lists them after all others."""

from collections.abc import Iterable, Iterator, Sequence
from heapq import nsmallest

from zoneward.kube import names
from zoneward.kube.objects import EndpointSlice, Service, is_ready
from zoneward.routing.phrases import counted, listed
from zoneward.routing.rules import Rule
from zoneward.routing.selection.endpoint_selection import is_proxied
from zoneward.slices.endpoints import ServiceEndpoints
from zoneward.slices.reconcile import SliceChanges


def rules_of_slices(
    service: Service,
    endpoints: ServiceEndpoints,
    changes: SliceChanges,
    others: Sequence[EndpointSlice],
    *,
    zone_hints: bool,
    node_hints: bool,
) -> tuple[tuple[Rule, ...], int | None]:
    """The rules about Pods that are left out, ports, and slices, and the index of one that voids all hints.

    ``zone_hints`` and ``node_hints``: whether our slices may have such hints. Without them, no slice is looked into.
    """
    rules = list(_target_rules(service, endpoints))
    gone, refused = endpoints.node_gone, endpoints.address_refused
    if gone:
        names_ = tuple(nsmallest(3, gone))
        detail = f"{counted(len(gone), 'pod')} left out: their node is gone ({listed(names_, count=len(gone))})"
        rules.append(Rule("pod-nodes", False, detail))
    if refused:
        pods = listed(tuple(nsmallest(3, refused)), count=len(refused))
        detail = f"{counted(len(refused), 'pod')} left out: no EndpointSlice may have such an address ({pods})"
        rules.append(Rule("pod-addresses", False, detail))
    voids_hints = None
    if others:
        written = changes.create, changes.update, changes.unchanged
        hints = [
            endpoint.hints
            for slices in written
            for slice_ in slices
            for endpoint in slice_.endpoints or ()
            if endpoint.hints
        ]
        hinted = zone_hints and bool(hints)
        nodes = node_hints and any(endpoint_hints.for_nodes for endpoint_hints in hints)
        rule = rule_of_others(others, hinted=hinted, nodes=nodes)
        voids_hints = None if rule.passed else len(rules)
        rules.append(rule)
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
    return tuple(rules), voids_hints


def _target_rules(service: Service, endpoints: ServiceEndpoints) -> Iterator[Rule]:
    """Ports that some Pods do not serve, because they have no container port with the name of the target."""
    served = [
        ({(port.name or "", port.protocol or "TCP") for port in group.ports}, group.size)
        for group in endpoints.port_groups.values()
    ]
    for port in service.spec.ports or ():
        key = (port.name, port.protocol)
        without = sum(size for keys, size in served if key not in keys)
        if without:
            detail = f"{counted(without, 'endpoint')} without a target for port {port.name or port.port}"
            yield Rule("target-ports", False, f"{detail}: no container port is called {port.target_port!r}")


def rule_of_others(others: Sequence[EndpointSlice], *, hinted: bool = True, nodes: bool = False) -> Rule:
    """Slices of others count too: one ready endpoint without hints there voids all hints (KEP-2433 § Observability)."""
    where = (
        f"{listed(tuple(sorted(slice_.metadata.name for slice_ in others)))} managed by {listed(managers_of(others))}"
    )
    if hinted and any(_voids_hints(slice_, nodes=nodes) for slice_ in others):
        detail = f"{where}: not modified; their endpoints without hints void the hints of the Service"
        return Rule("slices-of-others", False, detail)
    return Rule("slices-of-others", True, f"{where}: not modified; proxies still use them")


def _voids_hints(slice_: EndpointSlice, *, nodes: bool) -> bool:
    """Whether a ready endpoint of the slice has no hint for zones, or ``nodes``: proxies then ignore all such hints."""
    for endpoint in slice_.endpoints or ():
        hints = endpoint.hints
        if is_ready(endpoint) and not (hints and (hints.for_nodes if nodes else hints.for_zones)):
            return True
    return False


def managers_of(slices: Iterable[EndpointSlice]) -> tuple[str, ...]:
    """The managers that some slices name."""
    managers = {(slice_.metadata.labels or {}).get(names.MANAGED_BY_LABEL) or "nobody named" for slice_ in slices}
    return tuple(sorted(managers))
