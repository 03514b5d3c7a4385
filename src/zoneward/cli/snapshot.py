"""``zoneward snapshot``: save the objects that decisions need to one file, to read again or to share."""

import sys
from contextlib import AbstractContextManager, nullcontext
from gzip import GzipFile
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from zoneward.cli.cluster_completion import complete_files
from zoneward.cli.options import Options, reading_options
from zoneward.cli.output import Note, print_notes

if TYPE_CHECKING:
    from zoneward.snapshots.cluster_snapshot import Snapshot

_FORMATS = ("json", "yaml")
_OTHER_FORMATS = frozenset(
    (
        "name",
        "wide",
        "table",
        "html",
        "csv",
        "sarif",
        "text",
        "slices-json",
        "yml",
        "kyaml",
        "custom-columns",
        "jsonpath",
    )
)
"""Other formats of ``-o``, of Zoneward or of kubectl."""
_TEMPLATES = (
    "jsonpath=",
    "jsonpath-",
    "custom-columns=",
    "custom-columns-",
    "go-template",
    "template=",
    "templatefile=",
)


@click.command("snapshot")
@reading_options()
@click.option(
    "-o",
    "--to",
    metavar="FILE|FORMAT",
    default="-",
    shell_complete=complete_files,
    help="Write to this file: YAML for .yaml and .yml, otherwise JSON; .gz compresses. The words json and yaml write"
    " that form to standard output, as with kubectl; ./json is a file.  [default: json]",
)
@click.option(
    "--anonymize",
    is_flag=True,
    help="Replace names, namespaces, addresses and values of labels; decisions stay the same.",
)
def command(*, options: Options, to: str, anonymize: bool) -> None:
    """Save the Services, Nodes, Pods and EndpointSlices of a cluster, and what says which proxies run on the nodes, to
    one file that -f reads, with only the fields that Zoneward reads. With some Services selected, it saves only what
    these need.

    \b
    zoneward snapshot -f DIRECTORY -o cluster.json.gz
    zoneward snapshot -f cluster.json -n shop --anonymize -o shared.json.gz
    """
    if not to:
        raise click.UsageError("--to: expected a file or -, got ''")
    word = to.lower()
    if word in _OTHER_FORMATS or word.startswith(_TEMPLATES):
        raise click.UsageError(f"-o: expected json, yaml or a file, got {to!r} (./{to} is a file)")
    from zoneward.cli.cluster_input import filter_services, load_snapshot, no_services_note, reading_notes
    from zoneward.kube.gc_tuning import without_gc
    from zoneward.snapshots.snapshot_writer import write_snapshot

    # json and yaml are formats, as in kubectl; ./json is a file.
    form = word if word in _FORMATS else "yaml" if word.removesuffix(".gz").endswith((".yaml", ".yml")) else "json"
    if word in _FORMATS:
        to = "-"
    is_compressed = word.endswith(".gz")
    # Open it before the cluster is read, so that a file that can't be written is reported at once.
    with without_gc(), nullcontext(sys.stdout.buffer) if to == "-" else _private_file(to) as file:
        snapshot = load_snapshot(options, workloads=True)
        notes = list(reading_notes(snapshot))
        if options.namespaces or options.selector is not None or options.services:
            services = filter_services(snapshot, options)
            if not services:
                notes.append(no_services_note(snapshot, options))
            snapshot = snapshot.only(services)
        if anonymize:
            from zoneward.routing.algorithms.heuristics import HEURISTICS
            from zoneward.routing.request.annotations import NUMBER_ANNOTATIONS
            from zoneward.routing.request.approach import Approach
            from zoneward.routing.rules import Reason
            from zoneward.snapshots.anonymizer import anonymized

            numbers = {annotation.name: annotation.parse for annotation in NUMBER_ANNOTATIONS}
            snapshot = anonymized(snapshot, words={*HEURISTICS, *Approach, *Reason}, numbers=numbers)
        with _compressed(file) if is_compressed else nullcontext(file) as stream:
            write_snapshot(snapshot, stream, form="yaml" if form == "yaml" else "json")
    notes.append(Note(_summary(snapshot, "standard output" if to == "-" else to)))
    print_notes(options, notes)


def _private_file(path: str) -> AbstractContextManager[IO[bytes]]:
    from zoneward.cli.output import atomic_file

    return atomic_file(Path(path), private=True)


def _compressed(file: IO[bytes]) -> GzipFile:
    # Without a name and a time, the same cluster gives the same bytes.
    return GzipFile(filename="", mode="wb", compresslevel=6, fileobj=file, mtime=0)


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
