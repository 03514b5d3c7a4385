"""What the proxy of one node selects: ``route`` as JSON and as a table."""

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
    dual = {(each.namespace, each.service) for each in route.ports if each.address_type == "IPv6"} & {
        (each.namespace, each.service) for each in route.ports if each.address_type == "IPv4"
    }
    for each in route.ports:
        port = each.port or str(each.port_number)
        name = f"{each.namespace}/{each.service}:{port}" + ("" if each.protocol == "TCP" else f"/{each.protocol}")
        label = Text(name)
        if (each.namespace, each.service) in dual:
            label.append(f" {each.address_type[-1]}", "dim")
        is_near = each.rule.endswith(("hints", "slices", "weights"))
        style = "green" if is_near else "yellow" if each.rule == "terminating" else ""
        used = Text(f"{len(each.all_reachable)} of {each.known}")
        load = [] if each.load_change is msgspec.UNSET else [_load(each.load_change)]
        rows.append([label, Text(each.rule, style), used, *load, _endpoints(each)])
    columns = ["SERVICE PORT", "RULE", "USES", "ENDPOINTS"]
    legend = ["USES: endpoints this node may send to, of all of the port's. More: -o json."]
    if any(each.load_change is not msgspec.UNSET for each in route.ports):
        columns.insert(3, "LOAD")
        legend.append("LOAD: the busiest endpoint's load against the busiest one's before the change of the cluster.")
    table = align_columns(columns, rows, right={"USES", "LOAD"}, width=width, cut=True)
    return Group(heading, table, join_wrapped(legend, "dim"))


def _load(change: float | None) -> StyledText:
    return Text("-", "dim") if change is None else Text(whole_percent(change))


def _endpoints(each: PortRoute) -> StyledText:
    parts: list[tuple[str, Sequence[str]]] = []
    if each.local is not None and each.cluster is not None:
        parts = [("cluster ", each.cluster), ("local ", each.local)]
    else:
        parts = [("local " if each.cluster is None else "", each.all_reachable)]
    text = Text()
    for number, (label, addresses) in enumerate(parts):
        text.append("; " if number else "").append(label, "dim").append(" ".join(addresses) or "none")
    return Text("weighted ", "dim").append_text(text) if each.weights else text
