"""Several clusters in one command: ``--context`` more than once."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

import click

from zoneward.cli.options import Options
from zoneward.cli.output import Note, print_document, print_notes, print_table
from zoneward.kube.input_error import InputError
from zoneward.report.fleet_tables import ClusterResult, fleet_document
from zoneward.report.table_parts import Table

T = TypeVar("T")
_OUTPUTS: Final = ("table", "text", "json", "yaml")
"""Those of all commands, of which no command has both table and text."""


def show_fleet(
    options: Options,
    work: Callable[[Options], T],
    kind: str,
    output: str,
    *,
    table_of: Callable[[Sequence[ClusterResult[T]]], Table],
    fields_of: Callable[[T], Any] = lambda result: result,
    fails: Callable[[T], bool] = lambda _result: False,
) -> int:
    """Print the result of each context, as a document of ``kind`` or as a row of a table, in the order of the command
    line. A cluster that cannot be read has an error, and the others are read all the same.

    Returns the exit status: 2 if a cluster could not be read, as for any bad input, and 1 if a result ``fails``.
    """
    if output not in _OUTPUTS:
        raise click.UsageError("--context: expected -o table or json with several")
    if options.files or options.sample:
        raise click.UsageError("--context: expected neither -f nor --sample with it: they replace the cluster")
    results: list[ClusterResult[T]] = []
    for context in options.contexts:
        one = replace(options, context=context)
        print_notes(one, [Note("reading", verbose=True)])
        try:
            results.append(ClusterResult(context, work(one)))
        except InputError as error:
            results.append(ClusterResult(context, None, str(error)))
    if output in ("json", "yaml"):
        print_document(fleet_document(kind, results, fields_of), output)
    else:
        print_table(options, table_of(results))
    if any(result.error for result in results):
        return 2
    return int(any(result.result is not None and fails(result.result) for result in results))
