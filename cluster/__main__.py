"""``python -m cluster``: a real cluster on this machine. `cluster/README.md` has what it is made of."""

import signal
import sys
from subprocess import SubprocessError

import click
from cluster.box import BoxError
from cluster.conformance import DOCUMENT, compare_modes
from cluster.disruptions import DISRUPTIONS
from cluster.lifecycle import KUBECTL, SIGNALS, open_cluster, start_cluster, stop_cluster
from cluster.machine import MachineError, check_root
from cluster.parts import Mode
from e2e.processes import ProcessError
from e2e.programs import ProgramsError

from cluster import bench as bench_disruptions

_MODE = click.argument("mode", type=click.Choice([mode.value for mode in Mode]), default=Mode.BUILT_IN.value)


@click.group()
def main() -> None:
    """Six kubelets with containerd in three zones, on this machine, as root."""


@main.command()
@_MODE
def up(mode: str) -> None:
    """Start it, with the built-in parts or with Zoneward's: until `down`."""
    start_cluster(Mode(mode))
    click.echo(f"kubectl for this cluster:  {KUBECTL} get nodes")


@main.command()
def down() -> None:
    """End it and remove all that it left, also what an interrupted start left."""
    check_root()
    stop_cluster()


@main.command("mode")
@_MODE
def change(mode: str) -> None:
    """Change who writes slices and who programs the nodes, while the cluster runs."""
    open_cluster().parts.start(Mode(mode))


@main.command()
def conformance() -> None:
    """Run Kubernetes' own tests on a separate cluster, with the built-in parts and with Zoneward's, and compare."""
    if lines := compare_modes():
        raise click.ClickException("\n".join(["these tests pass with the built-in parts only:", *lines]))
    click.echo(f"every test that passes with the built-in parts passes with Zoneward's: {DOCUMENT}")


@main.command()
@click.argument("disruptions", nargs=-1, type=click.Choice(list(DISRUPTIONS)))
@click.option("--runs", type=click.IntRange(min=1), default=bench_disruptions.RUNS, show_default=True)
@click.option("--resume", is_flag=True, help="Keep the runs of a call that was interrupted.")
@click.option(
    "--mode",
    type=click.Choice([Mode.BOTH.value, Mode.OVERLAY.value]),
    default=Mode.BOTH.value,
    show_default=True,
    help="Which parts of Zoneward the built-in ones are compared with.",
)
def bench(disruptions: tuple[str, ...], runs: int, resume: bool, mode: str) -> None:
    """Count connections that fail while a separate cluster changes: with the built-in parts, and with Zoneward's."""
    if lines := bench_disruptions.run(disruptions, runs=runs, resume=resume, mode=Mode(mode)):
        raise click.ClickException("\n".join(["more than wanted:", *lines]))


def _interrupt(signal_number: int, _frame: object) -> None:
    raise KeyboardInterrupt(signal.Signals(signal_number).name)


if __name__ == "__main__":
    for signal_number in SIGNALS:
        signal.signal(signal_number, _interrupt)
    try:
        main(standalone_mode=False)
    except (MachineError, ProgramsError) as error:
        click.echo(error, err=True)
        sys.exit(2)
    except (BoxError, ProcessError, SubprocessError, TimeoutError) as error:
        click.echo(error, err=True)
        sys.exit(1)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        sys.exit(130)
