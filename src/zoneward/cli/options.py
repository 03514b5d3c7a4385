"""The options that several commands share."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import wraps
from typing import Any, Final, Literal, get_args

import click

from zoneward.advice.node_proxies import PROXY_KINDS, ZONEWARD_PROXY
from zoneward.advice.prices import Charge
from zoneward.cli.completion import (
    complete_approaches,
    complete_context,
    complete_files,
    complete_names_or_files,
    complete_namespace,
    complete_node,
    complete_service,
    without_kind,
)
from zoneward.kube import names
from zoneward.kube.input_error import did_you_mean
from zoneward.routing.what_if import WHAT_IF_VALUES, find_what_if_value

Color = Literal["auto", "always", "never"]
_MAX_PODS: Final = 150_000
"""The most Pods that a what-if question may ask for: as many as Kubernetes supports in a cluster."""
_MOST_LISTED: Final = 15
"""Values that a message lists; of more, it names only near ones."""


@dataclass(frozen=True, slots=True)
class ReplicasChange:
    """``--replicas [NAMESPACE/]SERVICE=N``."""

    service: str
    replicas: int

    def __str__(self) -> str:
        return f"{self.service}={self.replicas}"


@dataclass(frozen=True, slots=True)
class AddedPods:
    """``--add-pods [NAMESPACE/]SERVICE=ZONE:N``."""

    service: str
    zone: str
    count: int

    def __str__(self) -> str:
        return f"{self.service}={self.zone}:{self.count}"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputChanges:
    """What ``--without-zone``, ``--without-node``, ``--replicas`` and ``--add-pods`` ask for, in their order."""

    without_zones: tuple[str, ...] = ()
    without_nodes: tuple[str, ...] = ()
    replicas: tuple[ReplicasChange, ...] = ()
    added_pods: tuple[AddedPods, ...] = ()

    def __bool__(self) -> bool:
        return any(values for _, values in self._given())

    @property
    def services(self) -> tuple[str, ...]:
        """The Services that change, as they were named, each once."""
        changes: Iterable[ReplicasChange | AddedPods] = (*self.replicas, *self.added_pods)
        return tuple(dict.fromkeys(change.service for change in changes))

    def refuse(self, why: str) -> None:
        """Raises a usage error where anything is to be changed: the option that was given, and why not."""
        for option, values in self._given():
            if values:
                raise click.UsageError(f"{option}: {why}")

    def _given(self) -> Iterator[tuple[str, tuple[object, ...]]]:
        yield "--without-zone", self.without_zones
        yield "--without-node", self.without_nodes
        yield "--replicas", self.replicas
        yield "--add-pods", self.added_pods


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The values of the shared options."""

    files: tuple[str, ...] = ()
    sample: bool = False
    context: str | None = None
    contexts: tuple[str, ...] = ()
    """All that ``--context`` names. Where there are several, ``context`` is that of the one at hand."""
    kubeconfig: str | None = None
    impersonate: str | None = None
    namespaces: tuple[str, ...] = ()
    all_namespaces: bool = False
    selector: str | None = None
    services: tuple[str, ...] = ()
    upstream: bool = False
    with_mode: Literal["overlay", "controller", "proxy"] | None = None
    config: str | None = None
    demand: str | None = None
    what_if: str | None = None
    changes: InputChanges = InputChanges()
    proxy: str | None = None
    measured_in: tuple[str, ...] = ()
    """``--measured``."""
    window: str | None = None
    price_per_gb: str | None = None
    charge: Charge | None = None
    color: Color = "auto"
    quiet: bool = False
    verbose: int = 0

    @property
    def cluster_words(self) -> tuple[str, ...]:
        """The options that name the cluster, for commands that people copy; none where files replace the cluster."""
        if self.files or self.sample:
            return ()
        named = (("--kubeconfig", self.kubeconfig), ("--context", self.context), ("--as", self.impersonate))
        return tuple(f"{name}={value}" for name, value in named if value)


# --- values of options ------------------------------------------------------------------------------------------------


class Choice(click.Choice[str]):
    """click's, with near values in its message."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            near = did_you_mean(str(value), self.choices)
            message = error.message.rstrip(".")
            if len(self.choices) > _MOST_LISTED and near:
                message = f"expected one of {len(self.choices)} values, got {value!r}"
            raise click.BadParameter(message + near, ctx, param) from error


class WhatIfChoice(click.Choice[str]):
    """A value of ``--what-if``, by any of its names. Completion and help list the values alone."""

    def __init__(self) -> None:
        super().__init__(WHAT_IF_VALUES)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        known = find_what_if_value(str(value))
        if known is None:
            raise click.BadParameter(unknown_approach(str(value)), ctx, param)
        # It means PreferSameZone, and some proxies know only this name.
        return names.PREFER_CLOSE if value == names.PREFER_CLOSE else known


def unknown_approach(name: str) -> str:
    """The message about a name that is none of an approach or algorithm."""
    return f"expected one of {', '.join(WHAT_IF_VALUES)}, got {name!r}{did_you_mean(name, WHAT_IF_VALUES)}"


def offer_near_values(command: click.Command) -> None:
    """Let every parameter of a command that has a fixed set of values offer near ones."""
    for parameter in command.params:
        if type(parameter.type) is click.Choice:
            parameter.type = Choice(parameter.type.choices, case_sensitive=parameter.type.case_sensitive)
        elif isinstance(parameter.type, click.IntRange):
            # click's name for it, "integer range", is in the message about a value that is no number.
            parameter.type.name = "integer"


class _ReplicasType(click.ParamType[ReplicasChange]):
    name = "[NAMESPACE/]SERVICE=N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> ReplicasChange:
        if isinstance(value, ReplicasChange):
            return value
        service, _, digits = str(value).partition("=")
        replicas = _number(digits, least=0)
        if not _is_service(service) or replicas is None:
            self.fail(f"expected {self.name} with N from 0 to {_MAX_PODS}, got {value!r}", param, ctx)
        return ReplicasChange(service, replicas)


class _AddedPodsType(click.ParamType[AddedPods]):
    name = "[NAMESPACE/]SERVICE=ZONE:N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> AddedPods:
        if isinstance(value, AddedPods):
            return value
        service, _, rest = str(value).partition("=")
        zone, _, digits = rest.rpartition(":")
        count = _number(digits, least=1)
        if not _is_service(service) or not zone or count is None:
            self.fail(f"expected {self.name} with N from 1 to {_MAX_PODS}, got {value!r}", param, ctx)
        return AddedPods(service, zone, count)


def _is_service(text: str) -> bool:
    return all(text.split("/")) and text.count("/") <= 1


def _number(text: str, *, least: int) -> int | None:
    # Not more digits than the limit has: Python reads no number of thousands.
    if not text.isascii() or not text.isdigit() or len(text) > len(str(_MAX_PODS)):
        return None
    count = int(text)
    return count if least <= count <= _MAX_PODS else None


# --- shared options ---------------------------------------------------------------------------------------------------


_FILES_HELP: Final = (
    "A snapshot: file, directory, or - for standard input (YAML or JSON, also gzip). May be repeated. Without it,"
    " Zoneward reads the cluster of the current context."
)
_WHAT_IF_HELP: Final = "Plan as if every selected Service asked for this: " + ", ".join(WHAT_IF_VALUES)
_WHAT_IF: Final = click.option("--what-if", type=WhatIfChoice(), metavar="VALUE", help=_WHAT_IF_HELP + ".")
_PROXY_HELP: Final = (
    "The kind of proxy on all nodes, instead of what is detected: kube-proxy-1.21 to kube-proxy-1.37, cilium-1.18 or"
    " cilium-1.18-service-topology (1.11 to 1.20), kube-router, kube-proxy-windows, zoneward; or what it honors:"
    " current, zone-slices, zone-hints, annotation, no-hints."
)


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def files_option(about: str) -> Decorator:
    """Give a command ``-f``."""
    return click.option(
        "-f", "--filename", "files", multiple=True, metavar="PATH", help=about, shell_complete=complete_files
    )


_INPUT: Final = (
    files_option(_FILES_HELP),
    click.option("--sample", is_flag=True, help="Use the sample cluster that comes with Zoneward."),
    click.option("--context", "contexts", multiple=True, metavar="NAME", shell_complete=complete_context,
                 help="Use this context of the kubeconfig. advise, check and report take several, for a row each."),
    click.option("--kubeconfig", metavar="FILE", help="Use this kubeconfig instead of $KUBECONFIG or ~/.kube/config.",
                 shell_complete=complete_files),
    click.option("--as", "impersonate", metavar="USER", help="Act as another user."),
    click.option("-n", "--namespace", "namespaces", multiple=True, metavar="NAME",
                 help="Only Services in this namespace. May be repeated.", shell_complete=complete_namespace),
    click.option("-A", "--all-namespaces", is_flag=True, help="Services in all namespaces. This is the default for"
                 " snapshots and for advise; elsewhere the default is the namespace of the context."),
    click.option("-l", "--selector", metavar="LABELS", help="Only Services with these labels (app=web,tier!=cache)."),
)  # fmt: skip
_CHANGES: Final = (
    click.option("--without-zone", "without_zones", multiple=True, metavar="ZONE",
                 help="As if this zone had failed: its Nodes and the Pods on them are gone. May be repeated."),
    click.option("--without-node", "without_nodes", multiple=True, metavar="NODE", shell_complete=complete_node,
                 help="As if this Node and the Pods on it were gone. May be repeated."),
    click.option("--replicas", multiple=True, type=_ReplicasType(), metavar=_ReplicasType.name,
                 help="As if the Service had N Pods: more in zones with the fewest, or fewer in zones with the most."
                 " May be repeated."),
    click.option("--add-pods", "added_pods", multiple=True, type=_AddedPodsType(), metavar=_AddedPodsType.name,
                 help="As if the Service had N more Pods in this zone. May be repeated."),
)  # fmt: skip
_PROXY: Final = (
    click.option("--proxy", "--consumer", "proxy", type=click.Choice(list(PROXY_KINDS)), metavar="NAME",
                 help=_PROXY_HELP),
)  # fmt: skip
_MODES: Final = (
    click.option("--compat", type=click.Choice(["upstream"]), help="Decide exactly as current Kubernetes does."),
    click.option("--with", "with_mode", type=click.Choice(["overlay", "controller", "proxy"]), help="Show what Zoneward"
                 " would do: by hints on the slices of the built-in controller, which keeps them; as the controller"
                 " that writes slices; with its own proxies on all nodes, too. Without it, plan, explain, check and"
                 " route show what Kubernetes does where the built-in controller writes the slices."),
)  # fmt: skip
color_option: Final = click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Whether tables are coloured. auto: on a terminal, unless NO_COLOR is set.",
)
_SETTINGS: Final = (
    click.option("--config", metavar="FILE", help="A ZonewardConfiguration file; flags override it.",
                 shell_complete=complete_files),
    click.option("--demand", metavar="cpu|nodes|even|FILE|URL|file|prometheus",
                 shell_complete=complete_names_or_files("cpu", "nodes", "even", "file", "prometheus"),
                 help="Where traffic is expected to start: by the CPU of the nodes in each zone, by their number,"
                 " evenly in all zones, by a file (YAML, JSON, CSV or measured documents), by the URL of a document,"
                 " or by what a Prometheus says (http://HOST:PORT, or prometheus+URL with any path). file, prometheus:"
                 " those of the configuration."),
    color_option,
)  # fmt: skip
_NOTES: Final = (
    click.option("-q", "--quiet", is_flag=True, help="Print no notes on standard error."),
    click.option("-v", "--verbose", count=True, help="Print more notes on standard error."),
)
_SERVICES: Final = click.argument(
    "services", nargs=-1, metavar="[[NAMESPACE/]SERVICE]...", shell_complete=complete_service
)
ONE_SERVICE: Final = click.argument(
    "services", nargs=-1, metavar="[NAMESPACE/]SERVICE", shell_complete=complete_service
)
"""The command says itself that it expects one."""


PROMETHEUS: Final = "prometheus"
"""A value of ``--measured``: the Prometheus of the configuration."""
_MEASURED_SOURCES: Final = (
    "files or directories with what a meter or a proxy serves at /measured; the URL of one; that of a Prometheus"
    " that scrapes them (http://HOST:PORT, or prometheus+URL with any path); or prometheus, that of the"
    " configuration. May be repeated."
)
_FILE_ENDINGS: Final = (".yaml", ".yml", ".json", ".gz")


def add_options(*options: Decorator) -> Decorator:
    """Give a command options, which ``--help`` lists in this order."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def planning_options(
    *, what_if: bool = True, changes: bool = True, fleet: bool = False, services: Decorator = _SERVICES
) -> Decorator:
    """Give a command all shared options; it receives them as one ``options``.

    ``what_if`` is off for a command that plans every approach anyway, ``changes`` for one about a cluster as it is.
    ``fleet``: it takes several contexts. ``services``: its argument.
    """
    asking = (*(_CHANGES if changes else ()), *((_WHAT_IF,) if what_if else ()))
    every = (*_INPUT, *asking, *_PROXY, *_MODES, *_SETTINGS, *_NOTES, services)
    return _options(*every, fleet=fleet)


def advising_options() -> Decorator:
    """Give a command that plans with the settings of the cluster as it is the options for these."""
    return _options(*_INPUT, *_PROXY, *_SETTINGS, *_NOTES, _SERVICES, fleet=True)


def reading_options() -> Decorator:
    """Give a command that decides nothing the options for input, selection and notes."""
    return _options(*_INPUT, *_NOTES, _SERVICES)


def output_option(forms: str, about: str | None = None) -> Decorator:
    """Give a command ``-o``. Of the ``forms``, such as ``table|json``, the first one is the default."""
    first, *others = forms.split("|")
    choice = click.Choice([first, *others])
    return click.option("-o", "--output", type=choice, default=first, show_default=True, help=about)


def only_option(about: str) -> Decorator:
    """Give a command ``--only``, which limits it to some approaches."""
    return click.option(
        "--only", multiple=True, metavar="NAME[,NAME...]", help=about, shell_complete=complete_approaches
    )


def measured_options(what: str) -> Decorator:
    """Give a command both options. ``what`` begins the help."""

    return add_options(
        click.option(
            "--measured",
            "measured_in",
            multiple=True,
            metavar="FILE|URL|prometheus",
            shell_complete=complete_names_or_files(PROMETHEUS),
            help=f"{what}: {_MEASURED_SOURCES}",
        ),
        click.option(
            "--window",
            metavar="DURATION",
            help="With a Prometheus for --measured: how much of the past counts, from 1m to 720h."
            "  [default: demand.prometheus.window of the configuration, else 1h]",
        ),
    )


def price_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command both options."""
    return add_options(
        click.option(
            "--price-per-gb", metavar="PRICE", help="What a GB (10^9 bytes) between zones costs, such as 0.01USD."
        ),
        click.option(
            "--charge",
            type=click.Choice(get_args(Charge)),
            help="one: a GB is charged once, where it leaves its zone. both: there, and again where it"
            " arrives. Requests and responses count in any case.  [default: one]",
        ),
    )(function)


def row_options(sorts: Sequence[str], *, sort_help: str, top_help: str, changed_help: str) -> Decorator:
    """Give a command with a row for each Service the options that choose and order rows. They mean the same in all."""

    return add_options(
        click.option("--sort", type=click.Choice(sorts), help="Order of the Services. name; in-zone: of which least"
                     f" traffic stays in its zone now; overload: with the worst overload now; {sort_help}"),
        click.option("--top", type=click.IntRange(min=0), metavar="NUMBER",
                     help=f"Show only the first Services; 0 shows all.  [default: {top_help}]"),
        click.option("--changed", is_flag=True, help=f"Only Services {changed_help}."),
    )  # fmt: skip


def _options(*options: Decorator, fleet: bool = False) -> Decorator:
    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def with_options(*, all_namespaces: bool, compat: str | None = None, **rest: Any) -> Any:
            changes = {field.name: rest.pop(field.name) for field in fields(InputChanges) if field.name in rest}
            own = {name: rest.pop(name) for name in list(rest) if name not in Options.__dataclass_fields__}
            contexts = tuple(dict.fromkeys(rest["contexts"]))
            if len(contexts) > 1 and not fleet:
                raise click.UsageError(
                    f"--context: expected one, got {len(contexts)}: advise, check and report take several"
                )
            shared = Options(
                all_namespaces=all_namespaces,
                upstream=compat == "upstream",
                changes=InputChanges(**changes),
                context=contexts[0] if contexts else None,
                **rest | {"contexts": contexts},
            )
            if shared.upstream and shared.with_mode:
                raise click.UsageError("--compat upstream and --with: expected one of them, got both")
            if shared.with_mode == "proxy" and shared.proxy is None:
                shared = replace(shared, proxy=ZONEWARD_PROXY.name)
            if all_namespaces and shared.namespaces:
                raise click.UsageError("-n and -A: expected one of them, got both")
            _refuse_files(shared.services)
            services = tuple(map(without_kind, shared.services))
            return function(options=replace(shared, services=services), **own)

        return add_options(*options)(with_options)

    return decorate


def _refuse_files(services: Sequence[str]) -> None:
    """Raises a usage error for an argument that is a file: no Service has such a name, and ``-f`` is what was meant."""
    for name in services:
        is_name = all(part.replace("-", "").isalnum() for part in name.split("/")) and name.count("/") < 2
        if name.lower().endswith(_FILE_ENDINGS) or (not is_name and os.path.exists(name)):  # noqa: PTH110
            raise click.UsageError(f"expected [NAMESPACE/]SERVICE, got {name!r}; to read this file: -f {name}")


# --- help -------------------------------------------------------------------------------------------------------------

_GROUPS: Final = {
    "Cluster or files": ("files", "sample", "contexts", "kubeconfig", "impersonate"),
    "Services": ("namespaces", "all_namespaces", "selector"),
    "Changes of the cluster": ("without_zones", "without_nodes", "replicas", "added_pods"),
    "Decisions": ("what_if", "proxy", "compat", "with_mode", "config", "demand"),
    "Measured traffic": ("measured_in", "window", "price_per_gb", "charge"),
    "Output": ("output", "to", "sort", "top", "changed", "details", "score", "watch", "color", "quiet", "verbose"),
}
"""Parameters by the heading of their group. All others are the command's own."""


class GroupedCommand(click.Command):
    """``--help`` shows its options in groups, the command's own options first."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        group_of = {name: group for group, names in _GROUPS.items() for name in names}
        records: dict[str, list[tuple[str, str]]] = {group: [] for group in ("Options", *_GROUPS)}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is not None:
                records[group_of.get(parameter.name or "", "Options")].append(record)
        for group, rows in records.items():
            if rows:
                with formatter.section(group):
                    formatter.write_dl(rows)
