"""``zoneward snapshot``: one file with all that decisions need, to be read again or given away."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from gzip import GzipFile
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from zoneward.cli.options import Note, Options, reading_options, tell

if TYPE_CHECKING:
    from zoneward.snapshots.cluster_snapshot import Snapshot


@click.command("snapshot")
@reading_options()
@click.option(
    "-o",
    "--to",
    metavar="FILE",
    default="-",
    help="Write into this file: YAML for .yaml and .yml, otherwise JSON; .gz compresses.  [default: standard output]",
)
@click.option(
    "--anonymize",
    is_flag=True,
    help="Replace names, namespaces, addresses and values of labels; decisions stay the same.",
)
def command(*, options: Options, to: str, anonymize: bool) -> None:
    """Save the Services, Nodes, Pods and EndpointSlices of a cluster, of each only what Zoneward reads, into one file
    that -f reads. With Services chosen, only what these need.

    \b
    zoneward snapshot -f DIRECTORY -o cluster.json.gz
    zoneward snapshot -f cluster.json -n shop --anonymize -o shared.json.gz
    """
    if not to:
        raise click.UsageError("--to: expected a file or -, got ''")
    from zoneward.cli.snapshots import no_services, reading_notes, services_in, snapshot_for
    from zoneward.kube.gc_tuning import without_gc
    from zoneward.snapshots.snapshot_writer import write_snapshot

    name = "" if to == "-" else to.lower()
    form = name.removesuffix(".gz")
    # Open before the cluster is read: what can't be written is told at once.
    with without_gc(), _opened(to) as file:
        snapshot = snapshot_for(options)
        notes = list(reading_notes(snapshot))
        if options.namespace is not None or options.selector is not None or options.services:
            services = services_in(snapshot, options)
            if not services:
                notes.append(no_services(snapshot))
            snapshot = snapshot.only(services)
        if anonymize:
            from zoneward.routing.algorithms.heuristics import HEURISTICS
            from zoneward.routing.request.approach import Approach
            from zoneward.routing.rules import Reason
            from zoneward.snapshots.anonymizer import anonymized

            snapshot = anonymized(snapshot, words={*HEURISTICS, *Approach, *Reason})
        with _compressed(file) if name.endswith(".gz") else _as_it_is(file) as stream:
            write_snapshot(snapshot, stream, form="yaml" if form.endswith((".yaml", ".yml")) else "json")
    notes.append(Note(_saved(snapshot, "standard output" if to == "-" else to)))
    tell(options, notes)


@contextmanager
def _opened(to: str) -> Iterator[IO[bytes]]:
    if to == "-":
        yield sys.stdout.buffer
        return
    from zoneward.cli.whole_file import whole_file

    with whole_file(Path(to), private=True) as file:
        yield file


@contextmanager
def _as_it_is(file: IO[bytes]) -> Iterator[IO[bytes]]:
    yield file


@contextmanager
def _compressed(file: IO[bytes]) -> Iterator[GzipFile]:
    # Without a name and a time in it, the same cluster gives the same file.
    with GzipFile(filename="", mode="wb", compresslevel=6, fileobj=file, mtime=0) as stream:
        yield stream


def _saved(snapshot: "Snapshot", where: str) -> str:
    counts = (
        (len(snapshot.services), "Service"),
        (len(snapshot.nodes), "Node"),
        (len(snapshot.pods), "Pod"),
        (len(snapshot.slices), "EndpointSlice"),
    )
    told = ", ".join(f"{number} {kind}{'' if number == 1 else 's'}" for number, kind in counts)
    return f"{told} written to {where}"
