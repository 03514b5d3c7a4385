"""Several clusters in one command: ``--context`` more than once."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import click

from zoneward.cli.options import Options
from zoneward.cli.output import Note, print_notes
from zoneward.kube.input_error import InputError
from zoneward.report.fleet_tables import ClusterResult

T = TypeVar("T")


def in_each_context(options: Options, work: Callable[[Options], T]) -> list[ClusterResult[T]]:
    """The result of each context, in the order of the command line. A cluster that cannot be read has an error, and the
    others are read all the same.
    """
    if options.files or options.sample:
        raise click.UsageError("--context: expected neither -f nor --sample with it: they replace the cluster")
    results: list[ClusterResult[T]] = []
    for context in options.contexts:
        print_notes(options, [Note(f"reading {context}", verbose=True)])
        try:
            results.append(ClusterResult(context, work(replace(options, context=context, contexts=(context,)))))
        except InputError as error:
            results.append(ClusterResult(context, None, str(error)))
    return results
