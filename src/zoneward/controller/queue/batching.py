"""When the queue hands out a changed Service, and when it retries a failed one.

Values in, values out: times are seconds of any clock that never decreases, random numbers are passed in. A change of a
quiet Service is handed out at once. A change that follows is batched with those behind it, for three reasons:

- ``period``, which the operator sets, as upstream's ``--endpointslice-updates-batch-period``. Upstream delays every
  change by it; here only changes that follow another one within the period wait. That costs one write more than
  upstream in each burst, the first one.
- the cost of decisions: some take a quarter of a second, and ten of a Service in a second are useless. A second of CPU
  counts as much as ``writes_of_cpu`` writes.
- the cost of writes: a rollout of 1,000 Pods touches ten slices with every few Pods. Each Service may write ``burst``
  slices at once and then ``writes_per_second``; further changes wait, for ``longest`` at most, because freshness is
  worth more than writes. Upstream's whole controller has 20 requests a second and a burst of 30, and no such limit.
"""

from dataclasses import dataclass
from math import inf
from typing import Final

from zoneward.client.backoff import Backoff


@dataclass(frozen=True, slots=True)
class WritePace:
    """When a Service was last handed out and written (s), and until when the allowed rate pays for its writes (s)."""

    written: float = -inf
    paid: float = -inf


NO_WRITES: Final = WritePace()


@dataclass(frozen=True, slots=True, kw_only=True)
class Batching:
    """``period`` and ``longest`` in seconds; ``burst`` and ``writes_per_second`` in slices of one Service.

    No change waits longer than the greater of ``period`` and ``longest``.
    """

    period: float = 0.0
    writes_per_second: float = 10.0
    burst: float = 10.0
    longest: float = 0.5
    writes_of_cpu: float = 100.0

    def __post_init__(self) -> None:
        for name, least in (("period", 0.0), ("burst", 0.0), ("longest", 0.0)):
            if not least <= getattr(self, name) < inf:
                raise ValueError(f"{name}: expected a number from {least:g}, got {getattr(self, name)}")
        if not self.writes_per_second > 0:
            raise ValueError(f"writes_per_second: expected a number above 0, got {self.writes_per_second}")

    def due(self, changed: float, pace: WritePace) -> float:
        """When a change that came at ``changed`` is handed out, if no other one waits."""
        if changed >= self.quiet_from(pace):
            return changed
        return max(changed + self.period, min(self._affordable(pace), changed + self.longest))

    def quiet_from(self, pace: WritePace) -> float:
        """From when on a change is handed out at once."""
        return max(pace.written + self.period, self._affordable(pace))

    def forgotten_from(self, pace: WritePace) -> float:
        """From when on a pace is the same as none: all writes are paid for."""
        return max(pace.written + self.period, pace.paid)

    def after(self, pace: WritePace, *, taken: float, writes: int, cpu: float = 0.0) -> WritePace:
        """The pace after these writes of slices, and seconds of CPU, for the change that was handed out at ``taken``.

        Without both there is nothing to batch: the Service is as quiet as before.
        """
        cost = (writes + cpu * self.writes_of_cpu) / self.writes_per_second
        if not cost:
            return pace
        return WritePace(written=taken if writes else pace.written, paid=max(pace.paid, taken) + cost)

    def _affordable(self, pace: WritePace) -> float:
        return pace.paid - self.burst / self.writes_per_second


BACKOFF: Final = Backoff(initial=0.25, cap=60.0, jitter=0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequeueDelay:
    """How long a Service waits after failures, in seconds.

    ``with_news``: after a change the next try may succeed, so it waits no longer than this. A time that the server
    asked for is always respected; after a change nothing is added to it.
    """

    backoff: Backoff = BACKOFF
    with_news: float = 2.0
