"""Times as API servers write them, ``2019-01-01T00:00:00Z``: whole seconds in UTC, which compare as text."""

from datetime import UTC, datetime


def time_text(seconds: float) -> str:
    """The text for seconds since the epoch."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
