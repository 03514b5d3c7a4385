"""The evaluation tool: algorithms scored over millions of inputs, by the functions that decide for clusters."""

from typing import Final

COMPUTED_DATASETS: Final = ("kep", "kep-permuted", "representative", "small", "medium", "few", "uniform")
"""The names of `zoneward.lab.datasets.ComputedDataset`. Here, because they are needed where numpy may be missing."""
