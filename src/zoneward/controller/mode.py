"""Which Services the controller manages, and what it writes."""

from enum import StrEnum


class Mode(StrEnum):
    """The Services whose EndpointSlices the controller writes, or whose hints."""

    OVERLAY = "overlay"
    """The built-in controller writes all slices; an admission policy sets Zoneward's hints in those of selected
    Services."""

    ONLY_MARKED = "only-marked"
    """Adopted Services; the built-in controller manages all others."""
    TAKE_OVER = "take-over"
    """Every Service with a selector: no other controller writes slices."""
