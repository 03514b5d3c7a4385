"""``zoneward snapshot``: save the objects that decisions need to one file, to read again or to share."""

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from zoneward.cli.completion import complete_files, complete_names
from zoneward.cli.options import GroupedCommand, Options, reading_options
from zoneward.cli.output import Note, atomic_file, compressed_by_name, print_notes

if TYPE_CHECKING:
    from zoneward.snapshots.cluster_snapshot import Snapshot

_FORMATS: Final = ("json", "yaml")


@click.command("snapshot", cls=GroupedCommand)
@reading_options()
@click.option(
    "--file",
    "to",
    metavar="FILE",
    default="-",
    shell_complete=complete_files,
    help="Write to this file, compressed if its name ends in .gz.  [default: standard output]",
)
@click.option(
    "-o",
    "--output",
    metavar="json|yaml",
    shell_complete=complete_names(*_FORMATS),
    help="The form.  [default: yaml for a file that ends in .yaml or .yml, else json]",
)
@click.option(
    "--anonymize",
    is_flag=True,
    help="Replace names, namespaces, addresses and values of labels; decisions stay the same.",
)
def command(*, options: Options, to: str, output: str | None, anonymize: bool) -> None:
    """Save the Services, Nodes, Pods and EndpointSlices of a cluster, and what says which proxies run on the nodes, to
    one file that -f reads, with only the fields that Zoneward reads. With some Services selected, it saves only what
    these need.

    \b
    zoneward snapshot -f DIRECTORY --file cluster.json.gz
    zoneward snapshot -f cluster.json -n shop --anonymize --file shared.json.gz
    """
    if not to:
        raise click.UsageError("--file: expected a file or -, got ''")
    form = None if output is None else output.lower()
    if form is not None and form not in _FORMATS:
        raise click.UsageError(f"-o: expected json or yaml, got {output!r}; to write a file: --file {output}")
    from zoneward.cli.cluster_input import filter_services, load_snapshot, no_services_note, reading_notes
    from zoneward.kube.gc_tuning import without_gc
    from zoneward.snapshots.snapshot_writer import write_snapshot

    name = to.lower()
    if form is None:
        form = "yaml" if name.removesuffix(".gz").endswith((".yaml", ".yml")) else "json"
    # Open it before the cluster is read, so that a file that can't be written is reported at once.
    with (
        without_gc(),
        nullcontext(sys.stdout.buffer) if to == "-" else atomic_file(Path(to), option="--file", private=True) as file,
    ):
        snapshot = load_snapshot(options, workloads=True)
        notes = list(reading_notes(snapshot))
        if options.namespaces or options.selector is not None or options.services:
            services = filter_services(snapshot, options)
            if not services:
                notes.append(no_services_note(snapshot, options))
            snapshot = snapshot.only(services)
        if anonymize:
            from zoneward.routing.algorithms.heuristics import HEURISTICS
            from zoneward.routing.request import NUMBER_ANNOTATIONS, Approach
            from zoneward.routing.rules import Reason
            from zoneward.snapshots.anonymizer import anonymized

            numbers = {annotation.name: annotation.parse for annotation in NUMBER_ANNOTATIONS}
            snapshot = anonymized(snapshot, words={*HEURISTICS, *Approach, *Reason}, numbers=numbers)
        with compressed_by_name(file, to, level=6) as stream:
            write_snapshot(snapshot, stream, form="yaml" if form == "yaml" else "json")
    notes.append(Note(_summary(snapshot, "standard output" if to == "-" else to)))
    print_notes(options, notes)


def _summary(snapshot: "Snapshot", where: str) -> str:
    counts: tuple[tuple[int, str], ...] = (
        (len(snapshot.services), "Service"),
        (len(snapshot.nodes), "Node"),
        (len(snapshot.pods), "Pod"),
        (len(snapshot.slices), "EndpointSlice"),
    )
    proxies = ((len(snapshot.daemon_sets), "DaemonSet"), (len(snapshot.config_maps), "ConfigMap"))
    counts += tuple((count, kind) for count, kind in proxies if count)
    objects = ", ".join(f"{count} {kind}{'' if count == 1 else 's'}" for count, kind in counts)
    return f"{objects} written to {where}"
