"""The dashboards about traffic: of a cluster, a Service, a node."""

from typing import Final

from deploy.dashboards.panels import TOP, Board, Query, graph, matrix, meters, quantiles, services, textbox, variable
from grafana_foundation_sdk.models import units

_COST: Final = "730 * 3600 / 1e9 * $price"
"""Of a byte a second."""


def cluster() -> Board:
    return Board(
        "cluster",
        "Cluster",
        "How much traffic of Services leaves its zone, from where to where, and which Services it belongs to.",
        (textbox("price", "Price of a GB", "Of a GB (10^9 bytes) between zones, in your currency.", "0.01"),),
        {
            "Share in zone": (
                graph(
                    "Traffic that stays in its zone",
                    "Of what starts and ends in known zones, over five minutes. Clients from outside start in no zone.",
                    units.PercentUnit,
                    _in_zone("connections"),
                    _in_zone("bytes"),
                    most=1,
                ),
                graph(
                    "Traffic between zones",
                    "Bytes a second in both directions: what providers charge for. Empty if no kernel counts bytes.",
                    units.BytesPerSecondSI,
                    ("sum(zoneward:bytes_cross_zone:rate5m{CLUSTER})", "between zones"),
                ),
            ),
            "Cost": (
                graph(
                    "Cost of traffic between zones, a month",
                    "What a month (730 h) costs at the rate of each moment. Set the price of a GB (10^9 bytes) above.",
                    units.Short,
                    (f"sum(zoneward:bytes_cross_zone:rate5m{{CLUSTER}}) * {_COST}", "all Services"),
                ),
                services(
                    "Services by cost a month",
                    f"The {TOP} whose traffic between zones costs most at the rate of now.",
                    units.Short,
                    f"zoneward:bytes_cross_zone:rate5m{{CLUSTER}} * {_COST}",
                    "zoneward:bytes_in_zone:ratio_rate1h{CLUSTER}",
                    amounts="Cost a month",
                ),
            ),
            "From zone to zone": (
                matrix(
                    "Connections a second",
                    "Rows: the zone where connections start (external: outside). Columns: the zone of the endpoint.",
                    units.CountsPerSecond,
                    "sum by (from_zone, to_zone) (zoneward:connections:rate5m{CLUSTER})",
                ),
                matrix(
                    "Bytes a second",
                    "Rows and columns as on the left; requests and responses together.",
                    units.BytesPerSecondSI,
                    "sum by (from_zone, to_zone) (zoneward:bytes:rate5m{CLUSTER})",
                ),
            ),
            "Services": (
                services(
                    "Services by bytes between zones",
                    f"The {TOP} with most bytes between zones now; the share in zone is that of the last hour.",
                    units.BytesPerSecondSI,
                    "zoneward:bytes_cross_zone:rate5m{CLUSTER}",
                    "zoneward:bytes_in_zone:ratio_rate1h{CLUSTER}",
                ),
                services(
                    "Services by connections between zones",
                    f"The {TOP} with most connections between zones now; the share in zone is that of the last hour.",
                    units.CountsPerSecond,
                    "zoneward:connections_cross_zone:rate5m{CLUSTER}",
                    "zoneward:connections_in_zone:ratio_rate1h{CLUSTER}",
                ),
            ),
            "Meters": meters("CLUSTER"),
        },
    )


def _in_zone(what: str) -> Query:
    every = f"sum(zoneward:{what}:rate5m{{KNOWN_ZONES}})"
    return f"1 - sum(zoneward:{what}_cross_zone:rate5m{{CLUSTER}}) / {every}", what


def service() -> Board:
    named = '__name__=~"zoneward_(meter_connections_total|proxy_service_endpoints)", CLUSTER'
    route = "{{from_zone}} → {{to_zone}}"
    per_second = "sum by (from_zone, to_zone) (rate({}{{SERVICE}}[STEP]))"
    endpoints = "zoneward_proxy_service_endpoints{SERVICE}"
    zone_of_node = "on (cluster, job, instance) group_left (zone) zoneward_proxy_info{CLUSTER}"
    return Board(
        "service",
        "Service",
        "Where the traffic of a Service goes, what the nodes do with it, and what the controller predicts.",
        (
            variable("namespace", "Namespace", "namespace", f"{{{named}}}"),
            variable("service", "Service", "service", f'{{{named}, namespace="$namespace"}}'),
        ),
        {
            "Share in zone": (
                graph(
                    "Measured and predicted",
                    "What stayed in its zone in the last hour, and what the controller predicts with --predictions.",
                    units.PercentUnit,
                    ("zoneward:connections_in_zone:ratio_rate1h{SERVICE}", "connections"),
                    ("zoneward:bytes_in_zone:ratio_rate1h{SERVICE}", "bytes"),
                    (
                        "max by (address_type) (zoneward_controller_service_in_zone_traffic{SERVICE})",
                        "predicted, {{address_type}}",
                    ),
                    most=1,
                ),
                graph(
                    "Predicted overload of the busiest endpoint",
                    "0 % is a fair share of the requests, 100 % twice as much. Only with --predictions.",
                    units.PercentUnit,
                    (
                        "max by (address_type) (zoneward_controller_service_max_overload{SERVICE})",
                        "{{address_type}}",
                    ),
                ),
            ),
            "From zone to zone": (
                graph(
                    "Connections",
                    "As the meters count them, by the zone where they start and the zone of the endpoint.",
                    units.CountsPerSecond,
                    (per_second.format("zoneward_meter_connections_total"), route),
                ),
                graph(
                    "Bytes",
                    "Requests and responses together, by the zone where the connection started.",
                    units.BytesPerSecondSI,
                    (per_second.format("zoneward_meter_bytes_total"), route),
                ),
                graph(
                    "Connections through Zoneward's proxies",
                    "As the proxies count them: only on nodes with Zoneward's proxy.",
                    units.CountsPerSecond,
                    (per_second.format("zoneward_proxy_connections_total"), route),
                ),
            ),
            "Endpoints": (
                graph(
                    "Nodes by rule",
                    "The rule by which nodes with Zoneward's proxy select endpoints; several if ports differ.",
                    units.Short,
                    (f"count by (rule) (group by (cluster, instance, rule) ({endpoints}))", "{{rule}}"),
                ),
                graph(
                    "Endpoints of a node",
                    "To how many endpoints a node may send, on average over the nodes of each zone and the ports.",
                    units.Short,
                    (f"avg by (zone) ({endpoints} * {zone_of_node})", "zone {{zone}}"),
                ),
            ),
        },
    )


def node() -> Board:
    nodes = '{__name__=~"zoneward_(proxy|meter)_info", CLUSTER}'
    per_second = "sum by (instance, to_zone) (rate({}{{NODE}}[STEP]))"
    not_served = ("refused", "contested", "partly_programmed")
    missed = {
        "lost_messages": "lost messages",
        "unlisted_connections": "beyond the limit",
        "connections_without_bytes": "without bytes",
    }
    return Board(
        "node",
        "Node",
        "How the proxy of a node keeps up, and what its meter counts.",
        (variable("node", "Node", "instance", nodes).regex("/^(.+?)(:[0-9]+)?$/").multi(True),),
        {
            "Proxy": (
                graph(
                    "Time to program a change",
                    "From a change in the proxy's cache until the kernel has it. No line while nothing changes.",
                    units.Seconds,
                    *quantiles("zoneward_proxy_sync_seconds", "NODE", "instance"),
                ),
                graph(
                    "Oldest change that waits",
                    "How long the oldest change has waited for the kernel. More than a second for long is too much.",
                    units.Seconds,
                    ("zoneward_proxy_waiting_seconds{NODE}", "{{instance}}"),
                ),
                graph(
                    "Services",
                    "Those that are served, and those that are not served as they are: their events say why.",
                    units.Short,
                    ("sum by (instance) (zoneward_proxy_services{NODE})", "served, {{instance}}"),
                    *(
                        (
                            f"sum by (instance) (zoneward_proxy_{state}_services{{NODE}})",
                            f"{state.replace('_', ' ')}, {{{{instance}}}}",
                        )
                        for state in not_served
                    ),
                ),
                graph(
                    "Repairs",
                    "Rules of Zoneward that another program changed, and that the proxy repaired.",
                    units.CountsPerSecond,
                    (
                        "sum by (instance, what) (rate(zoneward_proxy_repairs_total{NODE}[STEP]))",
                        "{{what}}, {{instance}}",
                    ),
                ),
            ),
            "Meter": (
                graph(
                    "Connections by zone",
                    "Connections of the node to Services, by the zone where they go.",
                    units.CountsPerSecond,
                    (per_second.format("zoneward_meter_connections_total"), "zone {{to_zone}}, {{instance}}"),
                ),
                graph(
                    "Bytes by zone",
                    "Their bytes, requests and responses together.",
                    units.BytesPerSecondSI,
                    (per_second.format("zoneward_meter_bytes_total"), "zone {{to_zone}}, {{instance}}"),
                ),
                graph(
                    "Table of connections",
                    "Entries of the kernel's table and how many it has room for. New connections fail when it is full.",
                    units.Short,
                    ("zoneward_meter_conntrack_entries{NODE}", "entries, {{instance}}"),
                    ("zoneward_meter_conntrack_limit{NODE}", "limit, {{instance}}"),
                ),
                graph(
                    "Not counted in full",
                    "Messages that the kernel lost, connections beyond the limit of series or without bytes.",
                    units.CountsPerSecond,
                    *(
                        (f"rate(zoneward_meter_{metric}_total{{NODE}}[STEP])", f"{name}, {{{{instance}}}}")
                        for metric, name in missed.items()
                    ),
                ),
            ),
        },
    )
