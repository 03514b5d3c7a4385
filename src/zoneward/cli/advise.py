"""``zoneward advise``: what to change in a cluster, ranked, with the commands."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from zoneward.advice.json_value import as_document
from zoneward.cli.completion import complete_files
from zoneward.cli.options import (
    GroupedCommand,
    Options,
    advising_options,
    measured_options,
    output_option,
    price_options,
)
from zoneward.cli.output import Note, page_source, print_document, print_line, print_notes, table_width, wants_color
from zoneward.kube.input_error import InputError
from zoneward.kube.names import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    from zoneward.advice.actions import Advice, AdvisedCluster, ServiceAdvice
    from zoneward.cli.planned_services import SelectedServices
    from zoneward.kube.objects import Service

_TOP: Final = 8
_FLEET_OUTPUTS: Final = ("text", "json", "yaml")
_DIFF_OUTPUTS: Final = ("text", "json", "yaml", "markdown")


@click.command("advise", cls=GroupedCommand)
@advising_options()
@measured_options("What nodes counted, to rank by; with --sample by default what comes with it")
@price_options
@click.option(
    "--top",
    type=click.IntRange(min=0),
    default=_TOP,
    show_default=True,
    metavar="N",
    help="Actions in the list; 0 for all.",
)
@output_option(
    "text|json|yaml|html|patches|markdown",
    "patches: a component of kustomize, in the directory of --to. markdown: with --diff.",
)
@click.option(
    "--diff",
    "manifests",
    multiple=True,
    metavar="PATH",
    shell_complete=complete_files,
    help="Show instead what the Services of these manifests would change. May be repeated.",
)
@click.option(
    "--to",
    metavar="DIRECTORY",
    shell_complete=complete_files,
    help="With -o patches: a new or empty directory for the files.",
)
def command(
    *,
    options: Options,
    top: int,
    output: str,
    manifests: tuple[str, ...],
    to: str | None,
) -> int:
    """Show what to change so that more traffic stays in its zone and no Pod is overloaded, the most effective first.
    Every action is verified by the decision of this cluster's own version of Kubernetes and by the proxies on its
    nodes. With the number of an action: its commands. It only reads.

    \b
    zoneward advise
    zoneward advise 2
    zoneward advise --context eu-1 --context us-1
    zoneward advise -f cluster.json shop/cart
    zoneward advise --measured http://prometheus.monitoring.svc:9090 --price-per-gb 0.01USD
    zoneward advise -f cluster.json -o patches --to patches/
    zoneward advise -f cluster.json --diff manifests/
    """
    if (output == "patches") != (to is not None):
        raise click.UsageError("-o patches and --to DIRECTORY: expected both or none")
    ranks = [int(name) for name in options.services if name.isdecimal()]
    if len(ranks) > 1:
        raise click.UsageError(f"expected the number of one action, got {len(ranks)}")
    services = tuple(name for name in options.services if not name.isdecimal())
    # The question is about a cluster; everywhere else the default is the namespace of the context.
    is_all = not services and not options.namespaces
    options = replace(options, services=services, all_namespaces=options.all_namespaces or is_all)
    if len(options.contexts) > 1:
        if ranks or manifests or output not in _FLEET_OUTPUTS:
            expected = "expected no number, no --diff, and -o text, json or yaml with several"
            raise click.UsageError(f"--context: {expected}")
        return _advise_fleet(options, output=output)
    if manifests:
        is_measured = bool(options.measured_in) or options.window is not None or options.price_per_gb is not None
        if ranks or is_measured or output not in _DIFF_OUTPUTS:
            expected = "no number, no --measured, --window or --price-per-gb, and -o text, json, yaml or markdown"
            raise click.UsageError(f"--diff: expected {expected} with it")
        _show_changes(options, manifests, output)
        return 0
    if output == "markdown":
        raise click.UsageError("-o markdown: expected --diff with it")
    advice, notes = _advise(options)
    if ranks:
        advice = _only(advice, ranks[0])
    print_notes(options, notes)
    if output == "patches":
        assert to is not None
        _write_patches(advice, Path(to))
    elif output in ("json", "yaml"):
        print_document(as_document("Advice", advice), output)
    elif output == "html":
        from zoneward.report.advice_report import advice_page

        page = advice_page(advice, source=page_source(options))
        sys.stdout.buffer.write(page.encode())
    else:
        from zoneward.report.advice_report import action_text, advice_text

        width, color = table_width(), wants_color(options)
        text = (
            action_text(advice, advice.actions[0], width=width, color=color)
            if ranks
            else advice_text(advice, top=top, width=width, color=color)
        )
        click.echo(text, nl=False, color=True)
    return 0


def _advise_fleet(options: Options, *, output: str) -> int:
    from zoneward.cli.fleet import show_fleet
    from zoneward.report.fleet_tables import advice_table

    def work(one: Options) -> "Advice":
        advice, notes = _advise(one)
        print_notes(one, notes)
        return advice

    return show_fleet(options, work, "Advice", output, table_of=advice_table)


def _only(advice: "Advice", rank: int) -> "Advice":
    from msgspec import structs

    chosen = tuple(action for action in advice.actions if action.rank == rank)
    if not chosen:
        count = len(advice.actions)
        expected = f"expected 1 to {count}" if count else "there are no actions"
        raise InputError("the number of an action", f"{expected}, got {rank}")
    return structs.replace(advice, actions=chosen)


def _advise(options: Options) -> "tuple[Advice, tuple[Note, ...]]":
    from collections import Counter

    from msgspec import structs

    from zoneward.advice.actions import advise, advise_service, view_as_decided
    from zoneward.advice.findings.check_cluster import check_cluster
    from zoneward.advice.shell_commands import in_cluster
    from zoneward.advice.traffic_report import Coverage
    from zoneward.cli.check import view_cluster
    from zoneward.cli.measured_input import node_traffic_of, pair_prices_of, read_measured_services, read_prices
    from zoneward.cli.planned_services import read_workload_objects, select_services
    from zoneward.cli.service_processes import in_processes, waiting
    from zoneward.kube.gc_tuning import without_gc
    from zoneward.routing.phrases import counted

    prices = read_prices(options)
    with without_gc(), waiting(options, "reading"):
        selected = select_services(options, workloads=True, assumes_kubernetes=True)
        selected, measured, prices, notes = read_measured_services(selected, prices)
    if measured is None and options.price_per_gb is not None:
        raise click.UsageError("--price-per-gb: expected --measured with it: without bytes there is no price")
    demand = selected.cluster_state.demand
    pair_prices = None if measured is None else pair_prices_of(selected, measured, prices)
    cluster = replace(_advised_cluster(selected), measured=measured, prices=pair_prices)
    selected = selected.of_zoneward
    objects = read_workload_objects(selected.snapshot)
    # Before the processes fork, which share these plans.
    with without_gc(), waiting(options, "checking"):
        inputs = [selected.input_of(service, objects) for service in selected.services]
        views = tuple(view_as_decided(given, cluster) for given in inputs)
        checked = check_cluster(view_cluster(selected, options, views))
    viewed = {id(view.service): (given, view) for given, view in zip(inputs, views, strict=True)}

    def work(service: "Service") -> "ServiceAdvice | None":
        given, view = viewed[id(service)]
        return advise_service(given, cluster, view=view)

    results = [advice for advice in in_processes(work, selected.services, options) if advice is not None]
    advice = advise(
        results,
        cluster,
        zones=dict(sorted(Counter(node.zone for node in demand.nodes if node.zone).items())),
        nodes_without_zone=sum(not node.zone for node in demand.nodes),
        findings=checked.findings,
        currency=prices.currency if pair_prices is not None else "",
    )
    assumed = sum(not view.current and bool(view.given.plan.families) for view in views)
    if assumed:
        services = counted(assumed, "Service")
        notes += (Note(f"{services} without EndpointSlices: for them, now is what Kubernetes would decide"),)
    if measured is not None:
        coverage = Coverage.of(measured, selected.cluster_state.by_cpu)
        if coverage.measured < coverage.nodes:
            of_nodes = f"{coverage.measured} of {counted(coverage.nodes, 'ready node')}"
            notes += (Note(f"measured on {of_nodes}: amounts a month are without what starts on the others"),)
        if measured.shortness is not None:
            notes += (Note(measured.shortness),)
        traffic = node_traffic_of(selected, measured).values()
        deviating = {node.node for nodes in traffic for node in nodes if node.deviates is not None}
        if deviating:
            do = "does" if len(deviating) == 1 else "do"
            nodes = counted(len(deviating), "node")
            notes += (Note(f"{nodes} {do} not do what is predicted: zoneward report shows what was measured"),)
    actions = tuple(
        structs.replace(
            action, commands=tuple(in_cluster(command, options.cluster_words) for command in action.commands)
        )
        for action in advice.actions
    )
    return structs.replace(advice, actions=actions), (*selected.notes, *notes)


def _advised_cluster(selected: "SelectedServices") -> "AdvisedCluster":
    """Without measurements."""
    from zoneward.advice.actions import AdvisedCluster

    return AdvisedCluster(selected.states, selected.node_proxies, selected.kubernetes)


def _in_namespace(manifests: Iterable["Service"], namespaces: Sequence[str]) -> Iterable["Service"]:
    """With one namespace given, it is that of manifests without one, as for ``kubectl apply``. They are read as of
    ``default``, which ``kubectl apply`` would refuse beside another one."""
    from msgspec import structs

    for manifest in manifests:
        metadata = manifest.metadata
        if len(namespaces) == 1 and metadata.namespace == DEFAULT_NAMESPACE:
            metadata = structs.replace(metadata, namespace=namespaces[0])
        yield structs.replace(manifest, metadata=metadata)


def _show_changes(options: Options, manifests: tuple[str, ...], output: str) -> None:
    """Raises InputError or a usage error."""
    from zoneward.kube.input_files import STDIN

    if STDIN in options.files and STDIN in manifests:
        raise click.UsageError("-f and --diff: expected standard input for one of them, got it for both")
    from zoneward.advice.manifest_changes import ManifestChanges, applied, changed_service
    from zoneward.cli.cluster_input import reading_notes, service_ranking
    from zoneward.cli.planned_services import select_services
    from zoneward.kube.gc_tuning import without_gc
    from zoneward.report.advice_report import changes_markdown, changes_text
    from zoneward.snapshots.cluster_snapshot import read_snapshot

    rank = service_ranking(options)
    read = read_snapshot(manifests, stdin=sys.stdin.buffer)
    given = [manifest for manifest in _in_namespace(read.services, options.namespaces) if rank(manifest) is not None]
    with without_gc():
        selected = select_services(options, assumes_kubernetes=True)
        cluster = _advised_cluster(selected)
        selected = selected.of_zoneward
        services = {(service.metadata.namespace, service.metadata.name): service for service in selected.services}
        changed, unknown, unchanged = [], [], 0
        for manifest in given:
            service = services.get((manifest.metadata.namespace, manifest.metadata.name))
            if service is None:
                unknown.append(f"{manifest.metadata.namespace}/{manifest.metadata.name}")
                continue
            after = selected.input_of(applied(service, manifest))
            change = changed_service(selected.input_of(service), after, cluster)
            if change is None:
                unchanged += 1
            else:
                changed.append(change)
    print_notes(options, [*reading_notes(read), *selected.notes])
    changes = ManifestChanges(tuple(changed), unchanged, tuple(unknown))
    if output in ("json", "yaml"):
        print_document(as_document("ManifestChanges", changes), output)
    elif output == "markdown":
        click.echo(changes_markdown(changes), nl=False)
    else:
        text = changes_text(changes, width=table_width(), color=wants_color(options))
        click.echo(text, nl=False, color=True)


def _write_patches(advice: "Advice", directory: Path) -> None:
    """Raises InputError for a directory that has files, and where nothing can be written."""
    from zoneward.cli.output import atomic_file
    from zoneward.report.manifests import patch_files

    files = patch_files(advice.actions)
    try:
        if directory.exists() and any(directory.iterdir()):
            raise InputError("--to", str(directory), "expected a new or an empty directory")
        for path, text in files.items():
            (directory / path).parent.mkdir(parents=True, exist_ok=True)
            with atomic_file(directory / path) as file:
                file.write(text.encode())
    except OSError as error:
        expected = f"expected a directory that can be written: {error.strerror}"
        raise InputError("--to", str(directory), expected) from error
    ranks = {action.rank for action in advice.actions}
    for action in advice.actions:
        about = []
        if not action.patches:
            about.append("has no patch")
        elif action.needs is not None:
            about.append(f"needs Zoneward's {action.needs} first")
        about += [f"is left out for the Services of action {rank}" for rank in action.instead_of if rank in ranks]
        if about:
            line = f"zoneward: action {action.rank} {', and '.join(about)}: zoneward advise {action.rank}"
            print_line(line, err=True)
    print_line(f"{len(files)} files written to {directory}" if files else "no patches: nothing was written")
