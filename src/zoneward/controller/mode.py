"""Which Services the controller manages."""

from enum import StrEnum


class Mode(StrEnum):
    """The Services whose EndpointSlices the controller writes."""

    TAKE_OVER = "take-over"
    """Every Service with a selector: no other controller writes slices."""
    ONLY_MARKED = "only-marked"
    """Adopted Services; the built-in controller manages all others."""
