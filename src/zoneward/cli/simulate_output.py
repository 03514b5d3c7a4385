"""The output of ``zoneward simulate``: standard output, a file, or a directory of files."""

import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Final

import click

from zoneward.cli.interrupts import Interrupts
from zoneward.cli.output import Note, atomic_file, print_notes, wants_color
from zoneward.cli.simulation_run import PARQUET, TOPOLOGY_SIMULATOR, SimulationOptions
from zoneward.report.simulation_report import heading, simulation_csv, simulation_document, simulation_table
from zoneward.routing.simulation_results import Simulation

if TYPE_CHECKING:
    from zoneward.lab.datasets import Inputs
    from zoneward.lab.scoring import Floats
    from zoneward.lab.simulation import RowSink
    from zoneward.lab.tally import SimulationSpec

_WIDEST: Final = 200


@dataclass(frozen=True, slots=True)
class SimulationOutput:
    """``sink`` writes rows while they are scored, where the output has rows; ``finish`` writes the rest at the end."""

    sink: "RowSink | None"
    finish: Callable[[Simulation], None]


_WRITES_ROWS: Final = (PARQUET, TOPOLOGY_SIMULATOR)


def import_writer(options: "SimulationOptions") -> None:
    """Import what writes rows. Call it before `Interrupts`: polars takes over SIGINT on import and would abort its
    writes; the last handler wins.
    """
    if options.output in _WRITES_ROWS:
        import_module("zoneward.lab.row_writers")


@contextmanager
def open_output(
    options: "SimulationOptions", spec: "SimulationSpec", interrupts: Interrupts
) -> Iterator[SimulationOutput]:
    """Open what will be written, so that a file that can't be written fails before the work begins."""
    if options.output == PARQUET:
        from zoneward.lab.row_writers import ParquetWriter

        with ParquetWriter(Path(options.to or ""), spec.contenders) as directory:
            interrupts.add_cleanup(directory.discard)

            def finish(simulation: Simulation) -> None:
                directory.finish(partial=heading(simulation) if simulation.partial else "")
                _note_partial(options, simulation)

            yield SimulationOutput(_hold_interrupts(directory.write, interrupts), finish)
    elif options.output == TOPOLOGY_SIMULATOR:
        from zoneward.lab.row_writers import TopologySimulatorWriter

        with (
            _copied_to_stdout()
            if options.to is None
            else atomic_file(Path(options.to), add_cleanup=interrupts.add_cleanup) as file
        ):
            sink = TopologySimulatorWriter(file, spec.contenders[0]).write
            yield SimulationOutput(
                _hold_interrupts(sink, interrupts), lambda simulation: _note_partial(options, simulation)
            )
    elif options.to is None:
        yield SimulationOutput(None, lambda simulation: click.echo(_text(options, simulation), nl=False, color=True))
    else:
        with atomic_file(Path(options.to), add_cleanup=interrupts.add_cleanup) as file:
            yield SimulationOutput(None, lambda simulation: _write(file, _text(options, simulation)))


def _hold_interrupts(sink: "RowSink", interrupts: Interrupts) -> "RowSink":
    """Delay Ctrl-C until the rows are written and counted: the file has what the result says."""

    def write_held(inputs: "Inputs", columns: "list[Floats]") -> None:
        interrupts.hold()
        sink(inputs, columns)

    return write_held


def _write(file: IO[bytes], text: str) -> None:
    file.write(text.encode())


def _note_partial(options: "SimulationOptions", simulation: Simulation) -> None:
    if simulation.partial:
        print_notes(options.shared, [Note(heading(simulation))])


# --- files ------------------------------------------------------------------------------------------------------------


@contextmanager
def _copied_to_stdout() -> Iterator[IO[bytes]]:
    """A temporary file that is copied to standard output at the end: bad input prints nothing there."""
    with TemporaryFile() as file:
        yield file
        file.seek(0)
        shutil.copyfileobj(file, sys.stdout.buffer, 1 << 20)


# --- text -------------------------------------------------------------------------------------------------------------


def _text(options: "SimulationOptions", simulation: Simulation) -> str:
    if options.output == "table":
        from zoneward.report.terminal_text import render_text

        if not options.run.differences:
            simulation = replace(simulation, differences=())
        # Wide enough for all columns: a number that is cut says nothing.
        table = simulation_table(simulation, width=_WIDEST)
        return render_text(table, color=wants_color(options.shared) and options.to is None, width=_WIDEST)
    if options.output == "json":
        from zoneward.advice.json_value import as_document, to_json

        return to_json(as_document("Simulation", simulation_document(simulation))).decode()
    if options.output == "csv":
        return simulation_csv(simulation)
    from zoneward.report.simulation_page import simulation_page

    return simulation_page(simulation, command=shlex.join(["zoneward", *sys.argv[1:]]))
