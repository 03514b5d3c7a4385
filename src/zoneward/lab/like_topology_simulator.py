"""Rows in the columns of the proposal's tool, so that what people have written for its results goes on working.

The format is that of github.com/googleinterns/k8s-topology-simulator, ``process/output-parser.go``: numbers with four
decimals, the two deviations in percent and with ``%``, their SD a share without. The score is that of KEP-2004's table,
``docs/lab.md`` § What is scored.
"""

from io import BytesIO
from typing import IO, Final

import numpy as np
import polars as pl

from zoneward.kube.safe_text import CSV_FORMULA
from zoneward.lab.contenders import Contender
from zoneward.lab.datasets import Inputs
from zoneward.lab.scoring import FATE, SCORED, Reals, slices_share, totals
from zoneward.routing.score import IN_ZONE, MAX_OVERLOAD, MEAN_OVERLOAD, MEAN_SQUARE

COLUMNS: Final = (
    *("input name", "score", "in-zone-traffic score", "deviation score", "slice score"),
    *("max deviation", "mean deviation", "SD of deviation"),
)
INVALID: Final = "invalid"
_PERCENT: Final = ("max deviation", "mean deviation")
_UNITS: Final = 10_000
_DECIMALS: Final = pl.Decimal(18, 4)
"""Written ten times faster than doubles."""


class LikeTopologySimulator:
    """Writes one contender's rows to a file; the header when it is made, the rest as it comes.

    In-zone-traffic and slice score are of 100; the deviation score is 100 less half of each deviation in percent; the
    score is 0.45, 0.15 and 0.4 of them. All seven are `INVALID` in a row in which a zone reaches no endpoint, and where
    there is none.

    The SD is the root of the mean, over endpoints, of the squared distance of the signed deviation from the mean
    absolute one. As all traffic goes somewhere, signed deviations add up to nothing, and what is left of that mean is
    the mean square of the deviations and the square of their mean size.
    """

    def __init__(self, file: IO[bytes], contender: Contender) -> None:
        self._file = file
        self._contender = contender
        file.write((",".join(COLUMNS) + "\n").encode())

    def write(self, inputs: Inputs, columns: list[Reals]) -> None:
        """A sink of `zoneward.lab.running.simulate`; ``columns`` are those of the one contender."""
        (measured,) = columns
        slices = slices_share(self._contender, measured, inputs.supply.sum(axis=1))
        deviations = measured[MAX_OVERLOAD], measured[MEAN_OVERLOAD]
        values = (
            totals(measured, slices),
            100 * measured[IN_ZONE],
            100 - 50 * (deviations[0] + deviations[1]),
            100 * slices,
            100 * deviations[0],
            100 * deviations[1],
            np.sqrt(measured[MEAN_SQUARE] + np.square(deviations[1])),
        )
        frame = pl.DataFrame(dict(zip(COLUMNS[1:], _rounded(np.array(values)), strict=True)))
        invalid = measured[FATE] != SCORED
        if invalid.any():
            frame = frame.select(pl.when(pl.lit(pl.Series(~invalid))).then(pl.all()))
        names = pl.Series(COLUMNS[0], inputs.names or list(map(inputs.name, range(len(inputs.numbers)))))
        written = frame.with_columns(pl.all().cast(_DECIMALS)).with_columns(
            pl.col(_PERCENT).cast(pl.String) + pl.lit("%")
        )
        # By way of memory: polars would write past the buffer of a file.
        text = BytesIO()
        # Names are somebody's text.
        names = names.str.replace(CSV_FORMULA, "'${1}")
        written.insert_column(0, names).write_csv(text, include_header=False, null_value=INVALID)
        self._file.write(text.getbuffer())


def _rounded(values: Reals) -> Reals:
    """In place to four decimals, to even where a double lies just between two, as ``%.4f`` does."""
    values *= _UNITS
    np.rint(values, out=values)
    # On to decimals some versions of polars round, others cut: both end at the same from a quarter of a unit further.
    values += np.copysign(0.25, values)
    values /= _UNITS
    return values
