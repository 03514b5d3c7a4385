"""``zoneward explain``: what happens to the traffic of a Service, why, and the smallest fixes."""

from typing import TYPE_CHECKING

import click

from zoneward.cli.options import ONE_SERVICE, GroupedCommand, Options, measured_options, output_option, planning_options
from zoneward.cli.output import page_source, print_json, print_notes, table_width, wants_color, write
from zoneward.kube.input_error import InputError

if TYPE_CHECKING:
    from zoneward.advice.explanation import Explanation, FamilyExplanation
    from zoneward.advice.measured_flows import MeasuredFlows
    from zoneward.cli.planned_services import SelectedServices


@click.command("explain", cls=GroupedCommand)
@planning_options(services=ONE_SERVICE)
@output_option("text|json|svg|html", "svg: a picture of zones and endpoints; html: a page with it.")
@measured_options("Show where connections went beside what is predicted, node by node")
def command(*, options: Options, output: str) -> None:
    """Show what happens to the traffic of one Service now, why, which smallest changes would help, and which traffic
    bypasses the proxies. Every change is verified by the decision on the changed cluster. It only reads.

    \b
    zoneward explain --sample shop/checkout
    zoneward explain shop/cart -o html
    zoneward explain -f cluster.json shop/cart --what-if PreferSameZone
    zoneward explain shop/cart --measured measured/
    """
    if len(options.services) != 1:
        raise click.UsageError(f"SERVICE: expected the name of one Service, got {len(options.services) or 'none'}")
    from zoneward.advice.measured_flows import measure_flows
    from zoneward.cli.measured_input import read_measured_input
    from zoneward.cli.planned_services import select_services
    from zoneward.kube.gc_tuning import without_gc

    with without_gc():
        selected = select_services(options, workloads=True)
        documents, measured_notes = read_measured_input(selected)
        measured = measure_flows(documents)
        explanation = _explain(selected, options, measured)
    print_notes(options, [*selected.notes, *measured_notes])
    if output == "text":
        from zoneward.report.explain_report import explanation_text

        text = explanation_text(explanation, width=table_width(), color=wants_color(options))
        click.echo(text, nl=False, color=True)
    elif output == "json":
        print_json("Explanation", explanation)
    elif output == "html":
        from zoneward.report.explain_report import explanation_page

        write(explanation_page(explanation, source=page_source(options)))
    else:
        from zoneward.report.explain_picture import explanation_picture

        write(explanation_picture(explanation))


def _explain(selected: "SelectedServices", options: Options, measured: "MeasuredFlows | None") -> "Explanation":
    from msgspec import structs

    from zoneward.advice.explanation import explain_service
    from zoneward.advice.service_input import ServiceInput
    from zoneward.advice.shell_commands import in_cluster
    from zoneward.cli.planned_services import read_workload_objects
    from zoneward.routing.phrases import listed

    if len(selected.services) != 1:
        names = tuple(f"{service.metadata.namespace}/{service.metadata.name}" for service in selected.services)
        raise InputError("SERVICE", f"expected one Service, got {len(names)}: {listed(names)}")
    (service,) = selected.services

    def given(cluster: "SelectedServices") -> ServiceInput:
        return cluster.asked_of(service, read_workload_objects(cluster.snapshot))

    read, decided = selected.unchanged, given(selected)
    explanation = explain_service(
        decided,
        node_proxies=(read or selected).node_proxies,
        actual=service,
        unchanged=given(read) if read is not None else None,
        of_zoneward=given(selected.of_zoneward) if decided.cluster_state.is_of_kubernetes else None,
        measured=measured,
    )

    def with_cluster(family: "FamilyExplanation") -> "FamilyExplanation":
        fixes = (
            structs.replace(fix, commands=tuple(in_cluster(command, options.cluster_words) for command in fix.commands))
            for fix in family.fixes
        )
        return structs.replace(family, fixes=tuple(fixes))

    return structs.replace(explanation, families=tuple(map(with_cluster, explanation.families)))
