"""``zoneward check``: is this cluster fit for zone aware routing?"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Literal, TypeVar

import click

from zoneward.cli.options import GroupedCommand, Options, output_option, planning_options
from zoneward.cli.output import page_source, print_document, print_json, print_notes, print_text, write
from zoneward.kube.input_error import InputError

if TYPE_CHECKING:
    from zoneward.advice.findings.check_cluster import CheckedCluster, Ignored
    from zoneward.advice.findings.cluster_view import ClusterView, ServiceView
    from zoneward.advice.findings.codes import Finding, Need
    from zoneward.cli.planned_services import SelectedServices
    from zoneward.snapshots.cluster_snapshot import Snapshot

T = TypeVar("T")
_TOP: Final = 5


@click.command("check", cls=GroupedCommand)
@planning_options(fleet=True)
@output_option("table|json|sarif|html")
@click.option(
    "--fail-on",
    type=click.Choice(["warning", "error"]),
    help="Exit with status 1 if there is a finding as bad as that, or worse. Without it the status is 0.",
)
@click.option(
    "--ignore",
    "ignored",
    multiple=True,
    metavar="CODE[:NAMESPACE/SERVICE]",
    help="Leave out findings with this code, or those that affect no Service but this one. May be repeated.",
)
@click.option(
    "--top",
    type=click.IntRange(min=0),
    default=_TOP,
    show_default=True,
    metavar="N",
    help="Lines that each code has in the table; 0 for all.",
)
def command(
    *, options: Options, output: str, fail_on: Literal["warning", "error"] | None, ignored: tuple[str, ...], top: int
) -> int:
    """Find what keeps zone aware routing from working: nodes without zones, proxies that ignore hints, settings with
    mistakes, Services and workloads that cannot spread, slices that do not do what they should. Each finding has a
    code, a severity, a reason and a fix. It only reads.

    \b
    zoneward check -A
    zoneward check -f cluster.json -o sarif --fail-on error
    zoneward check -A --what-if PreferSameZone --ignore ZW501:shop/cart
    """
    rules = tuple(map(_ignored, ignored))
    from msgspec import structs

    from zoneward.advice.findings.check_cluster import check_cluster
    from zoneward.advice.findings.codes import CODES
    from zoneward.advice.shell_commands import in_cluster
    from zoneward.cli.planned_services import select_services
    from zoneward.kube.gc_tuning import without_gc

    def work(one: Options) -> "CheckedCluster":
        with without_gc():
            selected = select_services(one, workloads=True)
            checked = check_cluster(view_cluster(selected, one), ignored=rules)
        print_notes(one, selected.notes)
        return structs.replace(checked, findings=tuple(with_cluster(finding, one) for finding in checked.findings))

    def with_cluster(finding: "Finding", one: Options) -> "Finding":
        if finding.fix == CODES[finding.code].fix:
            return finding
        command = in_cluster(finding.command, one.cluster_words)
        return structs.replace(finding, fix=finding.fix.removesuffix(finding.command) + command, command=command)

    def fails(checked: "CheckedCluster") -> bool:
        return fail_on is not None and checked.has_at_least(fail_on)

    if len(options.contexts) > 1:
        from zoneward.cli.fleet import show_fleet
        from zoneward.report import fleet_tables

        return show_fleet(options, work, "Check", output, table_of=fleet_tables.check_table, fails=fails)
    checked = work(options)
    if output == "table":
        from zoneward.report.check_report import check_table

        print_text(options, check_table(checked, top=top), crop=False)
    elif output == "html":
        from zoneward.report.check_report import check_page

        write(check_page(checked, source=page_source(options)))
    elif output == "json":
        print_json("Check", checked)
    else:
        from zoneward.report.check_report import sarif_document

        print_document(sarif_document(checked), "json")
    return int(fails(checked))


def _ignored(text: str) -> "Ignored":
    from zoneward.advice.findings.check_cluster import Ignored
    from zoneward.advice.findings.codes import CODES
    from zoneward.kube.input_error import did_you_mean

    code, colon, service = text.partition(":")
    if code not in CODES:
        raise InputError("--ignore", f"expected a code such as ZW101, got {code!r}{did_you_mean(code, CODES)}")
    namespace, slash, name = service.partition("/")
    if not colon:
        return Ignored(code)
    if not (slash and namespace and name) or "/" in name:
        raise InputError("--ignore", f"expected CODE:NAMESPACE/SERVICE, got {text!r}")
    return Ignored(code, service)


def view_cluster(
    selected: "SelectedServices", options: Options, services: "tuple[ServiceView, ...] | None" = None
) -> "ClusterView":
    """The cluster as checks see it, with its ``services`` where they are viewed already."""
    from zoneward.advice.findings.cluster_view import ClusterView, ServiceView
    from zoneward.cli.cluster_input import controller_lease_name
    from zoneward.cli.planned_services import read_workload_objects
    from zoneward.kube.leases import is_led
    from zoneward.kube.workload_objects import Lease, MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding

    snapshot = selected.snapshot
    if services is None:
        services = tuple(
            ServiceView(
                selected.input_of(service),
                selected.now_of(service),
                selected.asked_of(service).service if options.what_if else None,
            )
            for service in selected.services
        )
    objects = read_workload_objects(snapshot)

    def of_type(type_: type[T]) -> Iterable[T]:
        return (object_ for object_ in snapshot.workload_objects if isinstance(object_, type_))

    overlays = selected.states.overlays
    lacking = dict(objects.lacking)
    if not any(service.runs_zoneward for service in services):
        # Only a Service of Zoneward's controller needs its Lease.
        lacking.pop("Leases", None)
    if not overlays:
        lacking.pop("policies", None)
    return ClusterView(
        nodes=snapshot.nodes,
        cluster_state=selected.cluster_state,
        services=services,
        node_proxies=selected.node_proxies,
        workloads=objects.workloads,
        autoscalers=objects.autoscalers,
        claims=objects.claims,
        volumes=objects.volumes,
        overlays=overlays,
        policies=tuple(of_type(MutatingAdmissionPolicy)),
        policy_bindings=tuple(of_type(MutatingAdmissionPolicyBinding)),
        is_led=is_led(tuple(of_type(Lease)), name=controller_lease_name(options)),
        lacking={**dict(_lacking(snapshot)), **lacking},
    )


def _lacking(snapshot: "Snapshot") -> Iterable[tuple["Need", str]]:
    """What is not known beside workloads, and why."""
    from zoneward.advice.findings.slices import is_of_controller

    if not snapshot.nodes:
        yield "Nodes", "there are no Nodes in the snapshot"
    if not snapshot.has_pods:
        yield "Pods", "there are no Pods in the snapshot"
    if not snapshot.has_pods and not snapshot.slices:
        yield "endpoints", "there are no Pods and no EndpointSlices in the snapshot"
    if not any(map(is_of_controller, snapshot.slices)):
        yield "EndpointSlices", "there are no EndpointSlices of a controller in the snapshot"
