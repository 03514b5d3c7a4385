"""``--measured`` and ``--window``: what nodes measured, from files, from nodes, and from Prometheus."""

import sys
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Final

import click
from msgspec import structs

from zoneward.cli.cluster_completion import complete_files
from zoneward.cli.options import Options
from zoneward.cli.output import Note
from zoneward.kube.input_error import InputError

if TYPE_CHECKING:
    from zoneward.kube.measured_traffic import MeasuredTraffic
    from zoneward.kube.prometheus_settings import PrometheusSettings

CONFIGURED: Final = "prometheus"
"""The Prometheus of the configuration."""
_SOURCES: Final = (
    "files or directories with what a meter or a proxy serves at /measured; the URL of one; that of a Prometheus"
    " that scrapes them (http://HOST:PORT, or prometheus+URL with any path); or prometheus, that of the"
    " configuration. May be repeated."
)
_Decorate = Callable[[Callable[..., Any]], Callable[..., Any]]


def measured_options(what: str) -> _Decorate:
    """Give a command both options; it receives them as ``measured_in`` and ``window``. ``what`` begins the help."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in (
            click.option(
                "--window",
                metavar="DURATION",
                help="With a Prometheus for --measured: how much of the past counts, from 1m to 720h."
                "  [default: demand.prometheus.window of the configuration, else 1h]",
            ),
            click.option(
                "--measured",
                "measured_in",
                multiple=True,
                metavar="FILE|URL|prometheus",
                shell_complete=complete_files,
                help=f"{what}: {_SOURCES}",
            ),
        ):
            function = option(function)
        return function

    return decorate


def read_measured_input(
    sources: Sequence[str], window: str | None, options: Options, *, nodes: Collection[str] | None
) -> "tuple[tuple[MeasuredTraffic, ...], tuple[Note, ...]]":
    """All documents, in the order given, and notes; none without a source. ``nodes``: the names of the cluster's Nodes,
    where they are known: of a Prometheus only their programs count. Raises InputError or a usage error."""
    from zoneward.snapshots.measured_traffic_files import read_measured

    servers = {source: settings for source in sources if (settings := _prometheus(source, window, options)) is not None}
    if window is not None and not servers:
        raise click.UsageError(f"--window: expected --measured {CONFIGURED} or the URL of a Prometheus with it")
    documents: list[MeasuredTraffic] = []
    notes: list[Note] = []
    for source in sources:
        if source not in servers:
            documents += read_measured([source], stdin=sys.stdin.buffer)
            continue
        try:
            answer, more = _ask(servers[source], nodes)
        except InputError as error:
            if not source.startswith("http"):
                raise
            raise InputError(f"{error}; a meter or a proxy has {servers[source].server}/measured") from error
        documents += answer
        notes += more
    return tuple(documents), tuple(notes)


def _prometheus(source: str, window: str | None, options: Options) -> "PrometheusSettings | None":
    """None for a file and for the URL of a document."""
    from zoneward.cli.configuration_file import read_configuration
    from zoneward.kube.prometheus_settings import PrometheusSettings, is_url, parse_window, prometheus_url

    if source == CONFIGURED:
        file = None if options.config is None else read_configuration(options.config)
        settings = None if file is None else file.configuration.demand.prometheus
        if settings is None:
            expected = "demand.prometheus in the file of --config with it, or the URL of one instead"
            raise InputError("--measured", f"expected {expected}, got neither")
    elif is_url(source):
        try:
            url = prometheus_url(source)
        except ValueError as error:
            raise InputError("--measured", str(error)) from None
        if url is None:
            return None
        settings = PrometheusSettings(url=url)
    else:
        return None
    if window is None:
        return settings
    try:
        return structs.replace(settings, window=parse_window(window))
    except ValueError as error:
        raise InputError("--window", str(error)) from None


def _ask(
    settings: "PrometheusSettings", nodes: Collection[str] | None
) -> "tuple[tuple[MeasuredTraffic, ...], list[Note]]":
    """Raises InputError."""
    from zoneward.cli.known_demand import ask_prometheus
    from zoneward.client.prometheus import Prometheus
    from zoneward.client.prometheus_traffic import read_traffic
    from zoneward.kube.prometheus_settings import window_text
    from zoneward.routing.phrases import counted

    answer = ask_prometheus(read_traffic(Prometheus(settings), nodes=nodes))
    of_what = (
        f"{counted(len(answer.documents), 'node')} from {settings.server}, the last {window_text(settings.window)}"
    )
    return answer.documents, [Note(f"measured traffic of {of_what}"), *map(Note, answer.notes)]
