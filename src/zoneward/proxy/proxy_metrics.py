"""What a node's proxy counts. Plain numbers, and no library: `zoneward.proxy.exposition` shows them.

What only has to be looked at when somebody asks (elements, rules, the cache) is not counted here.
"""

from collections import Counter
from typing import Final

from zoneward.client.api_errors import CallFailed, Gone
from zoneward.daemon.histogram import SECONDS, Histogram
from zoneward.netlink.messages import Family

FAST: Final = (0.0001, 0.00025, 0.0005, *SECONDS)
"""Seconds: a transaction of one element takes a tenth of a millisecond."""
MENDED: Final = ("table", "chains", "sets", "elements", "rules")
"""What others may change. All are told from the start: what begins above 0 has no rate."""


class ProxyMetrics:
    """All in the event loop's thread."""

    def __init__(self) -> None:
        self.sync: Final = Histogram(FAST)
        """From a change in the cache until the kernel has it."""
        self.apply: Final = Histogram(FAST)
        """What the kernel took for a transaction."""
        self.programming: Final = Histogram(SECONDS)
        """From a change of an endpoint, as its slice tells it, until the kernel has it."""
        self.transactions: Final[Counter[Family]] = Counter()
        self.changed_elements: Final[Counter[Family]] = Counter()
        self.refused: Final[Counter[Family]] = Counter()
        self.mended: Final[Counter[str]] = Counter(dict.fromkeys(MENDED, 0))
        """By what was found changed by others."""
        self.restarts = 0
        """Of the process that programs the kernel."""
        self.flows_removed = 0
        self.watch_troubles: Final[Counter[str]] = Counter()

    def watch_failed(self, error: CallFailed, *, kind: str) -> None:
        """A list or watch broke off. That the server's memory is short is no trouble."""
        if not isinstance(error, Gone):
            self.watch_troubles[kind] += 1
