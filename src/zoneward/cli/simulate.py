"""``zoneward simulate``: the evaluation tool."""

import click

from zoneward.cli.options import Options
from zoneward.routing.simulation_results import ENCODINGS

_OF_THE_PROPOSAL = "random,local,local-kep-tool,local-shared,local-weighted,local-opt"


@click.command("simulate")
@click.option(
    "-d",
    "--dataset",
    metavar="NAME|FILE",
    help="What to score: see above.  [default: kep, or cluster with -f or --sample]",
)
@click.option(
    "-a",
    "--algorithm",
    "algorithms",
    multiple=True,
    metavar="NAME[,NAME...]",
    help="Which algorithms: see above.  [default: those of KEP-2004, random to local-opt]",
)
@click.option("--algorithm-file", metavar="FILE.py:FUNCTION", help="A rule of your own, beside those of -a.")
@click.option(
    "--encoding",
    type=click.Choice([*ENCODINGS, "both"]),
    default=ENCODINGS[0],
    show_default=True,
    help="How zones are told their endpoints; hints need no slices of their own, and can't say weights.",
)
@click.option("--by", type=click.Choice(["endpoints", "zones"]), help="Also a table for each band of inputs.")
@click.option(
    "--quantiles", metavar="PERCENT[,...]", help="Also the score that so many percent of the inputs miss: 1,5,50."
)
@click.option(
    "--worst", type=click.IntRange(0, 10_000), default=0, metavar="N", help="Also the N worst inputs of each algorithm."
)
@click.option("--differences", is_flag=True, help="Also how algorithms differ on the same inputs, with confidence.")
@click.option("--bounds", is_flag=True, help="Also what no algorithm can pass.")
@click.option(
    "--sweep",
    "sweeps",
    multiple=True,
    metavar="PARAMETER=N[,N...]",
    help="Each algorithm that has the parameter, with each of these values. May be repeated.",
)
@click.option("--sample-size", type=click.IntRange(1), metavar="N", help="Only N inputs, spread evenly, by chance.")
@click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=2004,
    show_default=True,
    metavar="N",
    help="For all that is by chance.",
)
@click.option("--skip-invalid", is_flag=True, help="Leave out rows of a CSV file that can't be read, and count them.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "csv", "json", "parquet", "html"]),
    default="table",
    show_default=True,
    help="parquet: each input with the scores of each algorithm, into the directory --to.",
)
@click.option(
    "--like",
    type=click.Choice(["topology-simulator"]),
    help="With -o csv: each input, in the columns of the proposal's tool. For one algorithm.",
)
@click.option("--to", metavar="PATH", help="Write into this file, not to standard output.")
@click.option("--jobs", type=click.IntRange(1, 1024), metavar="N", help="Workers.  [default: one for each core]")
@click.option("--scheduler", metavar="tcp://HOST:PORT", help="Work on the machines of a dask cluster.")
@click.option("-f", "--filename", "files", multiple=True, metavar="PATH", help="A snapshot for --dataset cluster.")
@click.option("--sample", is_flag=True, help="The sample cluster for --dataset cluster.")
@click.option("--config", metavar="FILE", help="A ZonewardConfiguration file for --dataset cluster.")
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Colour in tables; NO_COLOR is obeyed.",
)
@click.option("-q", "--quiet", is_flag=True, help="No notes and no progress on standard error.")  # fmt: skip
def command(
    *,
    dataset: str | None,
    algorithms: tuple[str, ...],
    algorithm_file: str | None,
    encoding: str,
    by: str | None,
    quantiles: str | None,
    worst: int,
    differences: bool,
    bounds: bool,
    sweeps: tuple[str, ...],
    sample_size: int | None,
    seed: int,
    skip_invalid: bool,
    output: str,
    like: str | None,
    to: str | None,
    jobs: int | None,
    scheduler: str | None,
    files: tuple[str, ...],
    sample: bool,
    config: str | None,
    color: str,
    quiet: bool,
) -> int:
    """Score algorithms over millions of inputs, with the functions that decide for clusters.

    Scores are those of KEP-2004: credits of 100 for traffic that stays in its zone, for little overload, and for few
    EndpointSlices. Ctrl-C ends it early, with what is known until then and exit status 130; a second one ends it at
    once.

    \b
    Datasets:
      kep             39,273,145 inputs of three zones, those of KEP-2004
      kep-permuted    the same, endpoints and nodes not sorted alike
      representative  the 19 inputs that come with the proposal's tool
      small           the small dataset of KEP-2004: at most 20 endpoints in a zone
      medium          at most 50 endpoints in a zone
      few             those of kep with at most 50 endpoints
      uniform         by chance; all with their defaults:
                      uniform:zones=3,nodes=1-10,endpoints=0-100,inputs=1000000
      cluster         the Services of -f, of --sample, or of the cluster of the current context
      FILE            rows such as: name,1 10,2 20,1 0 (nodes and endpoints)

    \b
    Algorithms, or all of them:
      random, local, local-kep-tool, local-shared, local-weighted, local-opt,
      ProportionalZoneCPU, PreferSameZone, cluster-wide
    local-kep-tool is local as the proposal's own tool has it; clusters have local.
    Their parameters, where they have them:
      local:startingThreshold=3,overloadThreshold=0.5,maxEndpointsPerSlice=100

    \b
    zoneward simulate
    zoneward simulate --sample-size 200000 -a all --encoding both --bounds
    zoneward simulate -d small -a local --sweep startingThreshold=1,2,3,4,5
    zoneward simulate -f cluster.json -a all
    zoneward simulate -d inputs.csv -a Local -o csv --like topology-simulator
    """
    if not algorithms and algorithm_file is None:
        algorithms = (_OF_THE_PROPOSAL,)
    if (like is not None and output != "csv") or (output == "parquet" and to is None):
        wrong = "--like: expected -o csv with it" if like else "-o parquet: expected --to DIRECTORY"
        raise click.UsageError(wrong)
    from zoneward.cli.requesting import Request
    from zoneward.cli.simulating import simulate_for

    return simulate_for(
        Request(
            dataset=dataset,
            algorithms=algorithms,
            algorithm_file=algorithm_file,
            encodings=ENCODINGS if encoding == "both" else (encoding,),
            by=by or "",
            quantiles=quantiles,
            worst=worst,
            differences=differences,
            bounds=bounds,
            sweeps=sweeps,
            sample_size=sample_size,
            seed=seed,
            skip_invalid=skip_invalid,
            output="like" if like else output,
            to=to,
            jobs=jobs,
            scheduler=scheduler,
            options=Options(
                files=files,
                sample=sample,
                all_namespaces=True,
                config=config,
                color=color,  # type: ignore[arg-type]
                quiet=quiet,
            ),
        )
    )
