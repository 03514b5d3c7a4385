"""Which Services are ours."""

from enum import StrEnum


class Mode(StrEnum):
    TAKE_OVER = "take-over"
    """Every Service that has a selector is ours: no other controller writes slices."""
    ONLY_MARKED = "only-marked"
    """Services that were adopted are ours; all others are left alone."""
