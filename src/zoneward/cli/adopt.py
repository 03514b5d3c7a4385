"""``zoneward adopt``: one Service taken over from the built-in controller, without a gap."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from zoneward.cli.handover_command import HandoverCommand, handover_options, service_argument
from zoneward.cli.options import Options

if TYPE_CHECKING:
    from zoneward.controller.handover.handover_steps import EndpointsPolicy
    from zoneward.kube.objects import Service


@click.command("adopt")
@service_argument()
@handover_options
@click.option(
    "--force", is_flag=True, help="Also adopt where no running controller is known, or Leases cannot be read."
)
@click.option(
    "--endpoints",
    "endpoints_policy",
    type=click.Choice(["keep", "delete"]),
    default="keep",
    show_default=True,
    help="What to do with the Endpoints object: the running controller keeps it current, or it is deleted.",
)
def command(
    *,
    options: Options,
    service: str,
    timeout: float,
    dry_run: bool,
    endpoints_policy: "EndpointsPolicy",
    force: bool,
) -> int:
    """Take one Service over from the built-in controller: move its selector to an annotation, write Zoneward's
    EndpointSlices, then delete those of the built-in controller. Every ready endpoint is in some slice at all times.

    From Kubernetes 1.36 on, `zoneward controller --overlay` sets hints and leaves selector and slices as they are.
    Adopt a Service for slice groups and weights.

    Without a selector, `kubectl port-forward service/...`, `kubectl logs service/...` and other tools that read
    spec.selector find no Pods of the Service. The command says what to use instead.

    After an interruption at any point, run the same command again to continue. From then on, a running `zoneward
    controller` keeps the slices up to date. The command looks for its Lease first, and without one writes nothing.

    \b
    zoneward adopt shop/cart --dry-run
    zoneward adopt shop/cart
    """
    from zoneward.cli.handover_command import run_handover
    from zoneward.controller.handover.handover_steps import next_adoption_step

    direction = HandoverCommand(
        run=lambda handover: handover.adopt(endpoints_policy=endpoints_policy),
        next_step=lambda handover: (
            lambda state: next_adoption_step(state, plan=handover.plan, endpoints_policy=endpoints_policy)
        ),
        command="zoneward adopt",
        note="only `zoneward controller` updates its slices from now on",
        warnings=lambda service: _warnings(service, options),
        needs_controller=not force,
    )
    return run_handover(service, direction, options=options, timeout=timeout, dry_run=dry_run)


def _warnings(service: "Service", options: Options) -> Iterator[str]:
    """What stops working for others when the selector moves, and what to use instead; nothing once it has moved."""
    selector = service.spec.selector
    if not selector:
        return
    from zoneward.advice.shell_commands import in_cluster, kubectl
    from zoneward.routing.request import requests_subsetting

    def command(*words: str) -> str:
        return in_cluster(kubectl(*words, namespace=service.metadata.namespace), options.cluster_words)

    name = service.metadata.name
    labels = ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
    forward = command("port-forward", "deployment/NAME", "PORT")
    broken = ", ".join(f"kubectl {verb} service/{name}" for verb in ("port-forward", "logs", "exec"))
    yield "warning: tools that read spec.selector do not work while a Service is adopted, among them"
    yield f"    {broken}"
    yield f"instead of port-forward: {forward}, or pod/NAME of one of"
    yield f"    {command('get', 'pods', f'--selector={labels}')}"
    yield f"instead of logs: {command('logs', f'--selector={labels}', '--prefix')}"
    if not requests_subsetting(service):
        yield "from Kubernetes 1.36 on, an overlay needs none of this: zoneward plan -o overlay"
