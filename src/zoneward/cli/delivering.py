"""Where the results of a simulation go: standard output, a file, or a directory of files."""

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

from zoneward.cli.interrupting import Interrupts
from zoneward.cli.options import Note, tell, wants_color
from zoneward.cli.requesting import Request
from zoneward.cli.whole_file import whole_file
from zoneward.report.simulation_report import heading, simulation_csv, simulation_document, simulation_table
from zoneward.routing.simulation_results import Simulation

if TYPE_CHECKING:
    from zoneward.lab.datasets import Inputs
    from zoneward.lab.scoring import Floats
    from zoneward.lab.simulation import RowSink
    from zoneward.lab.tally import SimulationSpec

_WIDEST: Final = 200


@dataclass(frozen=True, slots=True)
class Delivery:
    """Who writes rows down while they are scored, if anybody, and what to do when all are there."""

    sink: "RowSink | None"
    finish: Callable[[Simulation], None]


_WRITES_ROWS: Final = ("parquet", "like")


def import_writer(request: Request) -> None:
    """Import what writes rows. To be called before `Interrupts`: polars takes SIGINT when it is imported, and would
    abort what it writes; whoever asks for the signal later has it.
    """
    if request.output in _WRITES_ROWS:
        import_module("zoneward.lab.row_writers")


@contextmanager
def delivery(request: Request, wanted: "SimulationSpec", interrupts: Interrupts) -> Iterator[Delivery]:
    """Everything that is to be written is open from here on: what can't be written is told before the work begins."""
    if request.output == "parquet":
        from zoneward.lab.row_writers import ParquetWriter

        with ParquetWriter(Path(request.to or ""), wanted.contenders) as directory:
            interrupts.at_once(directory.discard)

            def finish(simulation: Simulation) -> None:
                directory.finish(partial=heading(simulation) if simulation.partial else "")
                _tell_partial(request, simulation)

            yield Delivery(_held(directory.write, interrupts), finish)
    elif request.output == "like":
        from zoneward.lab.row_writers import TopologySimulatorWriter

        with _copied() if request.to is None else whole_file(Path(request.to), at_once=interrupts.at_once) as file:
            sink = TopologySimulatorWriter(file, wanted.contenders[0]).write
            yield Delivery(_held(sink, interrupts), lambda simulation: _tell_partial(request, simulation))
    elif request.to is None:
        yield Delivery(None, lambda simulation: click.echo(_text(request, simulation), nl=False, color=True))
    else:
        with whole_file(Path(request.to), at_once=interrupts.at_once) as file:
            yield Delivery(None, lambda simulation: _write(file, _text(request, simulation)))


def _held(sink: "RowSink", interrupts: Interrupts) -> "RowSink":
    """Ctrl-C waits until rows are written and counted: what is written down is what the result says."""

    def held(inputs: "Inputs", columns: "list[Floats]") -> None:
        interrupts.hold()
        sink(inputs, columns)

    return held


def _write(file: IO[bytes], text: str) -> None:
    file.write(text.encode())


def _tell_partial(request: Request, simulation: Simulation) -> None:
    if simulation.partial:
        tell(request.options, [Note(heading(simulation))])


# --- files ------------------------------------------------------------------------------------------------------------


@contextmanager
def _copied() -> Iterator[IO[bytes]]:
    """A file without a name, copied to standard output at the end: bad input leaves nothing there."""
    with TemporaryFile() as file:
        yield file
        file.seek(0)
        shutil.copyfileobj(file, sys.stdout.buffer, 1 << 20)


# --- what stands in them ----------------------------------------------------------------------------------------------


def _text(request: Request, simulation: Simulation) -> str:
    options = request.options
    if request.output == "table":
        from zoneward.report.terminal_text import render_text

        if not request.differences:
            simulation = replace(simulation, differences=())
        # As wide as it takes: numbers that are cut say nothing.
        table = simulation_table(simulation, width=_WIDEST)
        return render_text(table, color=wants_color(options) and request.to is None, width=_WIDEST)
    if request.output == "json":
        from zoneward.report.plan_json import to_json

        return to_json(simulation_document(simulation)).decode()
    if request.output == "csv":
        return simulation_csv(simulation)
    from zoneward.report.simulation_page import simulation_page

    return simulation_page(simulation, command=shlex.join(["zoneward", *sys.argv[1:]]))
