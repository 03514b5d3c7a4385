"""Names of the lab that are needed before numpy is known to be there."""

from typing import Final

COMPUTED_DATASETS: Final = ("kep", "kep-permuted", "representative", "small", "medium", "few", "uniform")
"""Datasets that are computed from the numbers of their rows (`zoneward.lab.datasets.ComputedDataset`)."""
