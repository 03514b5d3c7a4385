"""What the pages of all commands say about where their figures come from."""

from datetime import UTC, datetime

from zoneward import __version__
from zoneward.cli.options import Options
from zoneward.report.html import Source


def page_source(options: Options) -> Source:
    return Source(cluster_name(options), f"{datetime.now(UTC):%Y-%m-%d %H:%M}Z", __version__)


def cluster_name(options: Options) -> str:
    if options.sample:
        return "The sample cluster"
    return ", ".join(options.files) if options.files else options.context or "The cluster of the current context"
