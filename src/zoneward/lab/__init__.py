"""The evaluation tool: algorithms scored over millions of inputs, by the functions that decide for clusters."""

from typing import Final

COMPUTED_DATASETS: Final = ("kep", "kep-permuted", "representative", "small", "medium", "few", "uniform")
"""The names of `zoneward.lab.datasets.ComputedDataset`. They stand here for the command line, which needs no numpy."""
