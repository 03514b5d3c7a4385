"""What the proxy of one node selects: ``route`` as JSON and as a table."""

from collections import Counter
from collections.abc import Sequence

import msgspec
from rich.console import Group, RenderableType

from zoneward.advice.json_value import JsonValue
from zoneward.report.terminal_text import StyledText, Text, align_columns, join_wrapped, whole_percent


class PortRoute(JsonValue, frozen=True, gc=False):
    """One Service port in one address family, as ``address:port``.

    ``cluster`` and ``local`` are null where the traffic policies do not use them; ``known`` counts the endpoints to
    choose from, ``healthy_local`` the ready ones on this node, which a health check node port reports.
    ``weights`` are those of ``cluster``, null where all are alike. ``load_change``: where options change the input, by
    how much the busiest endpoint of the Service has more load than the busiest one had before; 0.5 is half as much
    again. It is absent where nothing changes, and null where no endpoint has traffic before or after.
    A proxy rejects traffic without any endpoints, and drops it where it may reach none of them.
    """

    namespace: str
    service: str
    address_type: str
    port: str
    port_number: int
    protocol: str
    cluster: tuple[str, ...] | None
    local: tuple[str, ...] | None
    all_reachable: tuple[str, ...]
    rule: str
    healthy_local: int
    has_endpoints: bool
    known: int
    weights: tuple[float, ...] | None = None
    load_change: float | msgspec.UnsetType | None = msgspec.UNSET


class NodeRoutes(JsonValue, frozen=True, gc=False):
    """Everything that one node's proxy selects. ``zone`` is null where the node has none; ``proxy`` is its kind."""

    node: str
    zone: str | None
    proxy: str
    ports: tuple[PortRoute, ...]


def route_table(route: NodeRoutes, *, width: int) -> RenderableType:
    """A line for each Service port, in ``width`` columns."""
    heading = Text.assemble("Proxy on ", (route.node, "bold"), " in zone ", (route.zone or "(none)", "bold"))
    heading.append(f": {route.proxy}")
    rows = []
    families = {(port.namespace, port.service, port.address_type) for port in route.ports}
    count = Counter((namespace, service) for namespace, service, _ in families)
    for port in route.ports:
        protocol = "" if port.protocol == "TCP" else f"/{port.protocol}"
        label = Text(f"{port.namespace}/{port.service}:{port.port or port.port_number}{protocol}")
        if count[port.namespace, port.service] > 1:
            label.append(f" {port.address_type[-1]}", "dim")
        is_near = port.rule.endswith(("hints", "slices", "weights"))
        style = "green" if is_near else "yellow" if port.rule == "terminating" else ""
        used = Text(f"{len(port.all_reachable)} of {port.known}")
        load = [] if port.load_change is msgspec.UNSET else [_load(port.load_change)]
        rows.append([label, Text(port.rule, style), used, *load, _endpoints(port)])
    columns = ["SERVICE PORT", "RULE", "USES", "ENDPOINTS"]
    legend = ["USES: endpoints this node may send to, of all of the port's. More: -o json."]
    if any(port.load_change is not msgspec.UNSET for port in route.ports):
        columns.insert(3, "LOAD")
        legend.append("LOAD: the busiest endpoint's load against the busiest one's before the change of the cluster.")
    table = align_columns(columns, rows, right={"USES", "LOAD"}, width=width, cut=True)
    return Group(heading, table, join_wrapped(legend, "dim"))


def _load(change: float | None) -> StyledText:
    return Text("-", "dim") if change is None else Text(whole_percent(change))


def _endpoints(port: PortRoute) -> StyledText:
    parts: list[tuple[str, Sequence[str]]] = []
    if port.local is not None and port.cluster is not None:
        parts = [("cluster ", port.cluster), ("local ", port.local)]
    else:
        parts = [("local " if port.cluster is None else "", port.all_reachable)]
    text = Text()
    for index, (label, addresses) in enumerate(parts):
        text.append("; " if index else "").append(label, "dim").append(" ".join(addresses) or "none")
    return Text("weighted ", "dim").append_text(text) if port.weights else text
