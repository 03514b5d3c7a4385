"""``zoneward plan``: the EndpointSlices that each Service would get, and what would come of it."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click

from zoneward.cli.options import GroupedCommand, Options, measured_options, output_option, planning_options, row_options
from zoneward.cli.output import Note, page_source, print_json, print_notes, print_table, wants_color, write

if TYPE_CHECKING:
    from zoneward.advice.decisions import Sort

_OBJECTS: Final = ("yaml", "slices-json", "overlay")
"""Outputs that are objects for `kubectl apply`."""


@click.command("plan", cls=GroupedCommand)
@planning_options()
@output_option(
    "table|wide|json|yaml|slices-json|overlay|html",
    "json: decisions with every rule; yaml, slices-json: a List of EndpointSlices; overlay: the policy and the"
    " ConfigMaps of an overlay; html: a page.",
)
@measured_options("Show what nodes counted beside what is predicted")
@row_options(
    ("name", "in-zone", "overload"),
    sort_help="without slices, as planned.  [default: name, or as they are named]",
    top_help="0",
    changed_help="whose traffic would change, or whose slices would be written",
)
@click.option("-w", "--watch", is_flag=True, help="Keep running, and show each change in a live cluster.")
def command(
    *,
    options: Options,
    output: str,
    watch: bool,
    sort: "Sort | None",
    top: int | None,
    changed: bool,
) -> int:
    """Show which endpoints each zone would use, how much traffic would stay in its zone, which endpoints
    would be overloaded, and why. It only reads.

    \b
    zoneward plan --sample
    zoneward plan -f cluster.json --what-if PreferSameZone
    zoneward plan -f cluster.json -n shop cart checkout -o json
    zoneward plan --sample --without-zone eu-central-1a
    zoneward plan -A --changed --sort overload --top 10
    zoneward plan -A -o overlay
    zoneward plan -A --watch
    zoneward plan -A --measured measured/
    zoneward plan -A --measured prometheus+http://prometheus.monitoring.svc:9090 --window 24h
    """
    if options.measured_in and (watch or output in _OBJECTS):
        raise click.UsageError("--measured: expected -o table, wide, json or html with it, and no --watch")
    if (sort or top or changed) and (watch or output in _OBJECTS):
        raise click.UsageError(
            "--sort, --top, --changed: expected -o table, wide, json or html with them, and no --watch"
        )
    if watch:
        from zoneward.cli.plan_watch import watch_plans

        return watch_plans(options, output)
    if output == "overlay":
        if options.upstream:
            raise click.UsageError("--compat upstream and -o overlay: expected one of them, got both")
        options = replace(options, with_mode="overlay")
    if output in _OBJECTS:
        options.changes.refuse(
            "expected -o table, wide, json or html with it: slices of Pods that do not exist help nobody"
        )
        options = replace(options, with_mode=options.with_mode or "controller")
    from zoneward.advice.decisions import choose_plans
    from zoneward.advice.now import plans_before
    from zoneward.cli.measured_input import read_measured_input
    from zoneward.cli.planned_services import select_services
    from zoneward.routing.selection.traffic import combine_measurements

    selected = select_services(options)
    documents, measured_notes = read_measured_input(selected)
    measured = combine_measurements(documents)
    before = None if selected.plans_before is None else plans_before(selected.plans_before)
    configuration, demand = selected.configuration, selected.cluster_state.demand
    now = {} if output in _OBJECTS else selected.now()
    plans = selected.plans
    if sort or top or changed:
        plans = choose_plans(plans, now, sort=sort, top=top, changed=changed)
    print_notes(options, [*selected.notes, *measured_notes])
    if output == "json":
        from zoneward.advice.decisions import decisions_document

        document = decisions_document(plans, now=now, measured=measured, zones=demand.zones, before=before)
        print_json("Plan", document)
    elif output in ("table", "wide", "html"):
        from zoneward.report.plan_table import plan_facts, plan_parts

        parts = plan_parts(
            plans,
            demand=demand,
            configuration=configuration,
            now=now,
            node_proxies=selected.node_proxies,
            wide=output != "table",
            measured=measured,
            before=before,
            is_page=output == "html",
            has_colors=output == "html" or wants_color(options),
            every_plan=selected.plans,
        )
        if output == "html":
            facts = plan_facts(selected.plans, demand=demand)
            source = page_source(options)
            write(parts.as_page("Plan", made_by="zoneward plan -o html", source=source, facts=facts))
        else:
            print_table(options, parts)
    else:
        from zoneward.advice.json_value import to_json
        from zoneward.report import manifests

        if output == "overlay":
            objects: Any = manifests.overlay_document(plans, configuration=configuration)
            lines = list(manifests.warn_before_overlay(plans, configuration=configuration))
        else:
            objects = manifests.slices_document(plans)
            lines = list(manifests.warn_before_applying(plans, configuration=configuration))
        write(to_json(objects) if output == "slices-json" else manifests.to_yaml(objects, lines))
        print_notes(options, map(Note, lines))
    return 0
