"""What Grafana's SDK makes of the panels of a dashboard, and of the words that queries may have in them."""

import re
from dataclasses import dataclass
from itertools import count
from typing import Final, TypeVar

from grafana_foundation_sdk.builders import common, prometheus, stat, table, timeseries
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as choices
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models import units
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

Query = tuple[str, str]
"""An expression, in which `WORDS` may stand, and what a line is called: ``{{label}}`` is the value of a label."""
Panel = timeseries.Panel | stat.Panel | table.Panel
P = TypeVar("P", timeseries.Panel, stat.Panel, table.Panel)
_CLUSTER: Final = 'cluster=~"$cluster"'
_JOBS: Final = "zoneward-controller|zoneward-proxy|zoneward-meter"
_TRUSTED: Final = 'job=~"$jobs", '
"""Any Pod that Prometheus scrapes can have our metrics."""
_OWN_METRICS: Final = re.compile(r"(zoneward_\w+\{)(?!JOB)|(\{)(?=__name__)")
WORDS: Final = {
    # Matches metrics without this label too, as long as all clusters are chosen.
    "CLUSTER": _CLUSTER,
    "JOB": f'{_CLUSTER}, job="$job"',
    # A node's proxy and its meter have the same address, but not the same port.
    "NODE": f'{_CLUSTER}, instance=~"$node(:[0-9]+)?"',
    "SERVICE": f'{_CLUSTER}, namespace="$namespace", service="$service"',
    "KNOWN_ZONES": f'{_CLUSTER}, from_zone!~"|external", to_zone!=""',
    "STEP": "$__rate_interval",
}
TOP: Final = 20
"""Services in a table."""
_SOURCE: Final = model.DataSourceRef(type_val="prometheus", uid="${datasource}")
_TAG: Final = "zoneward"


@dataclass(frozen=True, slots=True)
class Board:
    """``name`` is that of the file, and part of the address in Grafana. ``rows``: panels, below their title."""

    name: str
    title: str
    description: str
    variables: tuple[build.QueryVariable | build.TextBoxVariable, ...]
    rows: dict[str, tuple[Panel, ...]]

    def text(self) -> str:
        """The file; the same each time."""
        made = build.Dashboard(f"Zoneward / {self.title}").uid(f"zoneward-{self.name}").description(self.description)
        made.tags([_TAG]).time("now-6h", "now").refresh("1m").timezone("browser")
        made.tooltip(model.DashboardCursorSync.CROSSHAIR)
        made.with_variable(build.DatasourceVariable("datasource").label("Data source").type("prometheus"))
        made.with_variable(textbox("jobs", "Jobs", "The scrape jobs of Zoneward's programs.", _JOBS))
        for chosen in (_clusters(), *self.variables):
            made.with_variable(chosen)
        link = build.DashboardLink("Zoneward").type(model.DashboardLinkType.DASHBOARDS).tags([_TAG])
        made.link(link.as_dropdown(True).include_vars(True).keep_time(True))
        panel_ids = count(1)
        for title, panels in self.rows.items():
            made.with_row(build.Row(title).id(next(panel_ids)))
            for panel in panels:
                made.with_panel(panel.id(next(panel_ids)).span(_width(panel, len(panels))))
        return JSONEncoder(indent=2, sort_keys=True, ensure_ascii=False).encode(made.build()) + "\n"


def _width(panel: Panel, among: int) -> int:
    """Of the 24 columns that a dashboard has."""
    if isinstance(panel, stat.Panel):
        return 4
    return 12 if among % 3 else 8


# --- panels -----------------------------------------------------------------------------------------------------------


def graph(title: str, description: str, unit: str, *queries: Query, most: float | None = None) -> timeseries.Panel:
    """Lines over time, from 0 up, to ``most`` where it is given."""
    made = _described(timeseries.Panel(), title, description, unit).height(8).min(0).line_width(1).fill_opacity(5)
    if most is not None:
        made.max(most)
    legend = common.VizLegendOptions().display_mode(choices.LegendDisplayMode.LIST).show_legend(True)
    made.legend(legend.placement(choices.LegendPlacement.BOTTOM))
    tooltip = common.VizTooltipOptions().mode(choices.TooltipDisplayMode.MULTI)
    made.tooltip(tooltip.sort(choices.SortOrder.DESCENDING))
    for letter, (expr, name) in zip("ABCDEF", queries, strict=False):
        made.with_target(_target(letter, expr).range().legend_format(name))
    return made


def number(title: str, description: str, expr: str, *, red: float | None = 1, unit: str = units.Short) -> stat.Panel:
    """The value of now, in red where it is ``red`` or more."""
    made = _described(stat.Panel(), title, description, unit).height(4)
    steps = [model.Threshold(None, "green")] + ([] if red is None else [model.Threshold(red, "red")])
    made.thresholds(build.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE).steps(steps))
    made.color_mode(choices.BigValueColorMode.VALUE).graph_mode(choices.BigValueGraphMode.NONE)
    made.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    return made.with_target(_target("A", expr).instant())


def matrix(title: str, description: str, unit: str, expr: str) -> table.Panel:
    """A row for each zone where traffic starts, a column for each where it goes."""
    made = _table(title, description, unit, expr)
    options = {"rowField": "from_zone", "columnField": "to_zone", "valueField": "Value"}
    return made.with_transformation(model.DataTransformerConfig(id_val="groupingToMatrix", options=options))


def services(
    title: str, description: str, unit: str, amount: str, share: str, *, amounts: str = "Between zones"
) -> table.Panel:
    """The Services with the largest ``amount``, and their ``share``. Each leads to its own dashboard."""
    by = "sum by (cluster, namespace, service)"
    most = f"topk({TOP}, {by} ({amount}))"
    made = _table(title, description, unit, most, f"{by} ({share}) and {most}")
    made.with_transformation(model.DataTransformerConfig(id_val="merge", options={}))
    names = {"cluster": "Cluster", "namespace": "Namespace", "service": "Service"}
    names |= {"Value #A": amounts, "Value #B": "Share in zone"}
    options = {"excludeByName": {"Time": True}, "renameByName": names}
    made.with_transformation(model.DataTransformerConfig(id_val="organize", options=options))
    made.sort_by([common.TableSortByFieldState().display_name(amounts).desc(True)])
    made.override_by_name("Share in zone", [model.DynamicConfigValue("unit", units.PercentUnit)])
    address = "/d/zoneward-service?${datasource:queryparam}&${cluster:queryparam}"
    address += "&var-namespace=${__data.fields.Namespace}&var-service=${__data.fields.Service}"
    links = [{"title": "This Service", "url": address}]
    return made.override_by_name("Service", [model.DynamicConfigValue("links", links)])


def _table(title: str, description: str, unit: str, *exprs: str) -> table.Panel:
    made = _described(table.Panel(), title, description, unit).height(8).show_header(True)
    for letter, expr in zip("AB", exprs, strict=False):
        made.with_target(_target(letter, expr).instant().format(PromQueryFormat.TABLE))
    return made


def _described(panel: P, title: str, description: str, unit: str) -> P:
    return panel.title(title).description(description).unit(unit).datasource(_SOURCE)


def _target(letter: str, expr: str) -> prometheus.Dataquery:
    return prometheus.Dataquery().ref_id(letter).datasource(_SOURCE).expr(spelled_out(expr))


def spelled_out(expr: str) -> str:
    """With what `WORDS` stand for. Of metrics that programs have, those of the chosen jobs count."""
    expr = _OWN_METRICS.sub(lambda match: f"{match[0]}{_TRUSTED}", expr)
    return re.sub(rf"\b({'|'.join(WORDS)})\b", lambda match: WORDS[match[1]], expr)


# --- variables --------------------------------------------------------------------------------------------------------


def variable(name: str, label: str, values: str, of: str) -> build.QueryVariable:
    """The ``values`` of a label of the metrics ``of``. Of several, the first one is shown at first."""
    made = build.QueryVariable(name).label(label).query(f"label_values({spelled_out(of)}, {values})")
    made.datasource(_SOURCE).refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
    return made.sort(model.VariableSort.ALPHABETICAL_ASC)


def textbox(name: str, label: str, description: str, default: str) -> build.TextBoxVariable:
    return build.TextBoxVariable(name).label(label).description(description).default_value(default)


def _clusters() -> build.QueryVariable:
    made = variable("cluster", "Cluster", "cluster", '{__name__=~"zoneward_(controller|proxy|meter)_info"}')
    made.current(model.VariableOption(selected=True, text="All", value="$__all"))
    return made.include_all(True).all_value(".*")


# --- queries that several dashboards have -----------------------------------------------------------------------------


def quantiles(histogram: str, selector: str, *labels: str) -> tuple[Query, Query]:
    """Which half, and 99 of a hundred, do not exceed."""
    name = "".join(f", {{{{{label}}}}}" for label in labels)
    rate = f"sum by ({', '.join(('le', *labels))}) (rate({histogram}_bucket{{{selector}}}[STEP]))"
    return (f"histogram_quantile(0.5, {rate})", f"50 %{name}"), (f"histogram_quantile(0.99, {rate})", f"99 %{name}")


def unzoned(info: str, selector: str) -> str:
    """How many nodes have no zone: 0 where each has one, nothing where no node reports."""
    return f'count({info}{{{selector}, zone=""}}) or 0 * count({info}{{{selector}}})'


def process(of: str) -> tuple[timeseries.Panel, timeseries.Panel]:
    """What they take from their machines, of the ten that take most."""
    cpu = "topk(10, rate(process_cpu_seconds_total{JOB}[STEP]))", "{{instance}}"
    memory = "topk(10, process_resident_memory_bytes{JOB})", "{{instance}}"
    return (
        graph("CPU", f"Cores that {of} use; the ten that use most.", units.Short, cpu),
        graph("Memory", f"Resident memory of {of}; the ten that need most.", units.BytesIEC, memory),
    )


def meters(selector: str) -> tuple[stat.Panel, ...]:
    """Whether the meters count all there is."""
    lost, left = (f"zoneward_meter_{name}_total{{{selector}}}" for name in ("lost_messages", "unlisted_connections"))
    fullest = f"max(zoneward_meter_conntrack_entries{{{selector}}} / zoneward_meter_conntrack_limit{{{selector}}})"
    of_nodes = "Nodes without the label topology.kubernetes.io/zone: what starts there is in no zone."
    return (
        number("Meters", "Nodes where a meter counts.", f"sum(zoneward_meter_cache_synced{{{selector}}})", red=None),
        number(
            "Without bytes",
            "Nodes whose kernel does not count bytes: only their connections are counted.",
            f"sum(zoneward_meter_accounting{{{selector}}} == bool 0)",
        ),
        number("Without a zone", of_nodes, unzoned("zoneward_meter_info", selector)),
        number(
            "Lost messages",
            "Of all nodes in the last hour: bytes of connections that ended may be missing.",
            f"sum(increase({lost}[1h]))",
        ),
        number(
            "Beyond the limit",
            "Connections of the last hour that are in no series, because their meter had too many.",
            f"sum(increase({left}[1h]))",
        ),
        number(
            "Fullest table",
            "The largest share of a node's table of connections that is in use.",
            fullest,
            red=0.9,
            unit=units.PercentUnit,
        ),
    )
