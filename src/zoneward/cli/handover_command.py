"""What ``adopt`` and ``release`` share: their options, the Service, and how each step is reported or shown."""

import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import click
from msgspec import structs

from zoneward.cli.cluster_input import (
    call_cluster,
    controller_lease_name,
    find_cluster,
    know_cluster_demand,
    load_configuration,
)
from zoneward.cli.completion import complete_files, complete_namespace, complete_service, without_kind
from zoneward.cli.daemon_command import CLUSTER_OPTIONS
from zoneward.cli.live_output import INTERRUPTED
from zoneward.cli.options import Options, add_options
from zoneward.cli.output import Note, print_line, print_notes
from zoneward.kube.input_error import InputError
from zoneward.kube.objects import time_text
from zoneward.kube.safe_text import printable

if TYPE_CHECKING:
    from zoneward.client.auth.client_config import ClientConfig
    from zoneward.client.transport import Transport
    from zoneward.controller.handover.handover_steps import HandoverStep, NextStep
    from zoneward.controller.handover.service_handover import ServiceHandover
    from zoneward.kube.objects import EndpointSlice, ObjectKey, Service

_TIMEOUT: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoverCommand:
    """What is different between the two commands. ``command`` continues after an interruption."""

    run: "Callable[[ServiceHandover], Coroutine[Any, Any, str]]"
    next_step: "Callable[[ServiceHandover], NextStep]"
    command: str
    note: str = ""
    """Printed when it is done."""
    warnings: "Callable[[Service], Iterable[str]]" = lambda _service: ()
    """Lines about what the command will change for others, printed before anything is written."""
    needs_controller: bool = False
    """Whether nothing may be written unless a controller runs."""


def handover_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command all options but `service_argument`; it receives those that name the cluster as ``options``."""

    @wraps(function)
    def with_options(*, namespace: str | None, **given: Any) -> Any:
        own = {name: given.pop(name) for name in list(given) if name not in Options.__dataclass_fields__}
        return function(options=Options(namespaces=() if namespace is None else (namespace,), **given), **own)

    return add_options(
        click.option("--dry-run", is_flag=True, help="Show each step and what it would write, and write nothing."),
        click.option(
            "--timeout",
            type=click.FloatRange(min=0, min_open=True),
            default=_TIMEOUT,
            show_default=True,
            metavar="SECONDS",
            help="The time limit for all steps together.",
        ),
        *CLUSTER_OPTIONS,
        click.option(
            "-n",
            "--namespace",
            metavar="NAME",
            help="The namespace of a Service without one in its name.",
            shell_complete=complete_namespace,
        ),
        click.option(
            "--config",
            metavar="FILE",
            help="The ZonewardConfiguration file of the controller.",
            shell_complete=complete_files,
        ),
        click.option("-q", "--quiet", is_flag=True, help="Do not report the steps."),
    )(with_options)


def service_argument(*, is_required: bool = True) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.argument(
        "service", metavar="[NAMESPACE/]SERVICE", required=is_required, shell_complete=complete_service
    )


def run_handover(service: str, direction: HandoverCommand, *, options: Options, timeout: float, dry_run: bool) -> int:
    """Run the steps, or show them. Returns the exit status.

    Raises a usage error or InputError; after the first write its message has the command that continues.
    """
    from zoneward.advice.shell_commands import in_cluster
    from zoneward.client.api_errors import CallFailed
    from zoneward.controller.handover.service_handover import HandoverTimeouts, ServiceHandover

    configuration = load_configuration(options)
    if configuration.keep_built_in_label:
        problem = (
            f"expected false for `{direction.command}`, got true: the labels must show which slices are Zoneward's"
        )
        raise InputError(str(options.config), f"controller.keepBuiltInLabel: {problem}")
    access, key = _find_service(service, options)
    since = time_text(time.time() - configuration.hints.new_node_grace)
    known_demand = know_cluster_demand(structs.replace(configuration, nodes_new_since=since), access)
    print_notes(options, known_demand.notes)
    name = "/".join(key)
    handovers: list[ServiceHandover] = []

    async def run(transport: "Transport") -> None:
        handover = ServiceHandover(
            transport,
            key,
            configuration=known_demand.configuration,
            service_parts=known_demand.service_parts,
            report=lambda line: print_notes(options, [Note(f"Service {name}: {line}")]),
            on_begin=lambda service: print_notes(options, map(Note, direction.warnings(service))),
            timeouts=HandoverTimeouts(total=timeout),
        )
        handovers.append(handover)
        problem = None
        if direction.needs_controller:
            # A Service that does not exist is the first problem.
            await handover.read_state(needs_plan=lambda _service: False)
            problem = await _missing_controller(transport, options)
        if dry_run:
            await _print_steps(handover, direction, name, problem, options.cluster_words)
        elif problem is not None:
            raise InputError(f"Service {name}", f"{problem}. Nothing was written; --force continues")
        else:
            print_line(f"Service {name}: {await direction.run(handover)}")
            print_notes(options, [Note(direction.note)] if direction.note else [])

    words = (*options.cluster_words, *([f"--config={options.config}"] if options.config else []))
    retry = in_cluster(f"{direction.command} {name}", words)
    try:
        call_cluster(access, run)
    except KeyboardInterrupt:
        if any(handover.is_begun for handover in handovers):
            print_line(f"zoneward: interrupted half way; to continue: {retry}", err=True)
        return INTERRUPTED
    except InputError as error:
        if isinstance(error.__cause__, CallFailed) and any(handover.is_begun for handover in handovers):
            raise InputError(str(error), f"half way; to continue: {retry}") from error.__cause__
        raise
    return 0


def _find_service(service: str, options: Options) -> "tuple[ClientConfig, ObjectKey]":
    namespace, slash, name = without_kind(service).rpartition("/")
    if not name or "/" in namespace or (slash and not namespace):
        raise click.UsageError(f"expected [NAMESPACE/]SERVICE, got {service!r}")
    given = options.namespaces[0] if options.namespaces else namespace
    if slash and given != namespace:
        raise click.UsageError(f"-n: expected {namespace}, as in {service}, got {given}")
    access, _ = find_cluster(options)
    return access, (given or access.namespace, name)


async def _missing_controller(transport: "Transport", options: Options) -> str | None:
    """Why no controller is known to update slices; None where a replica that does holds the Lease."""
    from zoneward.client.api_errors import Forbidden
    from zoneward.client.optional_objects import list_controller_leases
    from zoneward.kube.leases import is_held, writes_no_slices

    expected, name = "expected a running zoneward controller, which updates the slices", controller_lease_name(options)
    try:
        leases = await list_controller_leases(transport, name=name)
    except Forbidden as error:
        return f"{expected}; whether one runs is unknown: {error}"
    now = datetime.now(UTC)
    held = [lease for lease in leases if is_held(lease, now=now)]
    if not all(map(writes_no_slices, held)):
        return None
    if held:
        where = ", ".join(f"{lease.metadata.namespace}/{name}" for lease in held)
        return f"{expected}, found none: the one with the Lease {where} is an overlay, which writes no slices"
    if not leases:
        return f"{expected}, found none: there is no Lease {name} in any namespace"
    where = ", ".join(f"{lease.metadata.namespace}/{name}" for lease in leases)
    return f"{expected}, found none: nobody has renewed the Lease {where} lately"


# --- dry run ----------------------------------------------------------------------------------------------------------


async def _print_steps(
    handover: "ServiceHandover", direction: HandoverCommand, name: str, problem: str | None, cluster: Sequence[str]
) -> None:
    from zoneward.controller.handover.handover_steps import all_steps

    state = await handover.read_state()
    warnings = () if problem is None else (f"warning: {problem}",)
    for line in (*warnings, *direction.warnings(state.service)):
        print_line(f"# {line}")
    for index, step in enumerate(all_steps(state, direction.next_step(handover)), start=1):
        click.echo("".join(_step_text(index, step, name, cluster)), nl=False)


def _step_text(index: int, step: "HandoverStep", name: str, cluster: Sequence[str]) -> Iterator[str]:
    """A step as a comment, followed by what it writes as YAML documents."""
    from zoneward.advice.shell_commands import in_cluster, kubectl
    from zoneward.controller.handover.handover_steps import ChangeService, DeleteSlices, WaitForOthers, WriteSlices
    from zoneward.report.manifests import slice_document, to_yaml

    lines = [f"{index}. {'wait for ' if isinstance(step, WaitForOthers) else ''}{step.about}"]
    documents: list[object] = []
    if isinstance(step, ChangeService):
        namespace, _, service = name.partition("/")
        command = kubectl("patch", "--type=merge", names=("service", service), namespace=namespace)
        lines.append(f"   {in_cluster(command, cluster)} with:")
        documents.append(step.change)
    elif isinstance(step, WriteSlices):
        documents += [slice_document(slice_) for slice_ in (*step.create, *step.update)]
        lines += _named("delete", step.delete)
    elif isinstance(step, DeleteSlices):
        lines += _named("delete", step.slices)
    yield to_yaml(documents[0], lines) if documents else "".join(f"# {printable(line)}\n" for line in lines)
    for document in documents[1:]:
        yield "---\n" + to_yaml(document, ())
    if documents:
        yield "---\n"


def _named(what: str, slices: "tuple[EndpointSlice, ...]") -> list[str]:
    return [f"   {what} {slice_.metadata.name}" for slice_ in slices]
