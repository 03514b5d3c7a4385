"""What ``adopt`` and ``release`` share: which Service, on which cluster, and how each step is told or shown."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import click

from zoneward.cli.clusters import access_for
from zoneward.cli.configuring import configuration_for
from zoneward.cli.interrupting import INTERRUPTED
from zoneward.cli.options import Note, Options, tell
from zoneward.cli.printing import print_line
from zoneward.kube.input_error import InputError
from zoneward.kube.safe_text import printable

if TYPE_CHECKING:
    from zoneward.client.auth.client_config import ClientConfig
    from zoneward.controller.handover.handover_steps import HandoverStep, NextStep
    from zoneward.controller.handover.service_handover import ServiceHandover
    from zoneward.kube.objects import EndpointSlice, ObjectKey

_TIMEOUT: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """Over or back. ``again`` is the command that goes on where this one was cut off."""

    run: "Callable[[ServiceHandover], Coroutine[Any, Any, str]]"
    following: "Callable[[ServiceHandover], NextStep]"
    again: str
    after: str = ""
    """What has to be known once it is done."""


def handing_over_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command its Service and where it is; it receives the latter as ``options``."""

    @wraps(function)
    def with_options(**given: Any) -> Any:
        own = {name: given.pop(name) for name in list(given) if name not in Options.__dataclass_fields__}
        return function(options=Options(**given), **own)

    wrapped: Callable[..., Any] = with_options
    for option in reversed(
        (
            click.option("--dry-run", is_flag=True, help="Show each step and what it would write, and write nothing."),
            click.option(
                "--timeout",
                type=click.FloatRange(min=0, min_open=True),
                default=_TIMEOUT,
                show_default=True,
                metavar="SECONDS",
                help="For all of it.",
            ),
            click.option("--context", metavar="NAME", help="A context of the kubeconfig."),
            click.option(
                "--kubeconfig", metavar="FILE", help="This kubeconfig instead of $KUBECONFIG or ~/.kube/config."
            ),
            click.option("--as", "impersonate", metavar="USER", help="Act as another user."),
            click.option("-n", "--namespace", metavar="NAME", help="Of a Service that is named without one."),
            click.option("--config", metavar="FILE", help="The controller's ZonewardConfiguration file."),
            click.option("-q", "--quiet", is_flag=True, help="Tell no steps."),
            click.argument("service", metavar="[NAMESPACE/]SERVICE"),
        )
    ):
        wrapped = option(wrapped)
    return wrapped


def hand_over(service: str, way: Way, *, options: Options, timeout: float, dry_run: bool) -> int:
    """Do it, or show it. Raises a usage error, or InputError; half way that one says how to go on."""
    from zoneward.client.api_errors import CallFailed
    from zoneward.client.error_messages import to_input_error
    from zoneward.client.transport import Transport
    from zoneward.controller.handover.service_handover import HandoverTimeouts, ServiceHandover

    configuration = configuration_for(options)
    if configuration.keep_built_in_label:
        problem = f"expected false for `{way.again}`, got true: it has to tell our slices from others"
        raise InputError(str(options.config), f"controller.keepBuiltInLabel: {problem}")
    access, key = _where(service, options)
    name = "/".join(key)
    begun: list[ServiceHandover] = []

    async def run() -> None:
        async with Transport(access) as transport:
            adopting = ServiceHandover(
                transport,
                key,
                configuration=configuration,
                report=lambda line: tell(options, [Note(f"Service {name}: {line}")]),
                timeouts=HandoverTimeouts(total=timeout),
            )
            begun.append(adopting)
            if dry_run:
                await _show(adopting, way, name)
            else:
                print_line(f"Service {name}: {await way.run(adopting)}")
                tell(options, [Note(way.after)] if way.after else [])

    again = f"{way.again} {name}"
    try:
        asyncio.run(run())
    except KeyboardInterrupt:
        if any(each.is_begun for each in begun):
            print_line(f"zoneward: cut off half way; to go on: {again}", err=True)
        return INTERRUPTED
    except CallFailed as error:
        told = to_input_error(error, access, now=datetime.now(UTC))
        if any(each.is_begun for each in begun):
            raise InputError(str(told), f"half way; to go on: {again}") from error
        raise told from error
    return 0


def _where(service: str, options: Options) -> "tuple[ClientConfig, ObjectKey]":
    namespace, slash, name = service.rpartition("/")
    if not name or "/" in namespace or (slash and not namespace):
        raise click.UsageError(f"expected [NAMESPACE/]SERVICE, got {service!r}")
    if slash and options.namespace not in (None, namespace):
        raise click.UsageError(f"-n: expected {namespace}, as in {service}, got {options.namespace}")
    access, _ = access_for(options)
    return access, (namespace or options.namespace or access.namespace, name)


# --- dry run ----------------------------------------------------------------------------------------------------------


async def _show(adopting: "ServiceHandover", way: Way, name: str) -> None:
    from zoneward.controller.handover.handover_steps import all_steps

    there = await adopting.read_state()
    for number, step in enumerate(all_steps(there, way.following(adopting)), start=1):
        click.echo("".join(_shown(number, step, name)), nl=False)


def _shown(number: int, step: "HandoverStep", name: str) -> Iterator[str]:
    """A step as a comment, and what it writes as YAML documents behind it."""
    from zoneward.controller.handover.handover_steps import ChangeService, DeleteSlices, WaitForOthers, WriteSlices
    from zoneward.report.slice_manifests import slice_document, to_yaml

    lines = [f"{number}. {'wait for ' if isinstance(step, WaitForOthers) else ''}{step.about}"]
    documents: list[object] = []
    if isinstance(step, ChangeService):
        namespace, _, service = name.partition("/")
        lines.append(f"   kubectl patch service {service} -n {namespace} --type=merge with:")
        documents.append(step.change)
    elif isinstance(step, WriteSlices):
        documents += [slice_document(each) for each in (*step.create, *step.update)]
        lines += _named("delete", step.delete)
    elif isinstance(step, DeleteSlices):
        lines += _named("delete", step.slices)
    yield to_yaml(documents[0], lines) if documents else "".join(f"# {printable(line)}\n" for line in lines)
    for each in documents[1:]:
        yield "---\n" + to_yaml(each, ())
    if documents:
        yield "---\n"


def _named(what: str, slices: "tuple[EndpointSlice, ...]") -> list[str]:
    return [f"   {what} {each.metadata.name}" for each in slices]
