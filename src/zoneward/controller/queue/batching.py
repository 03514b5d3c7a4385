"""When a change of a Service is given out, and when a Service that failed is tried again.

Values in, values out: times are seconds on any clock that never goes back, chance is passed in. A change that finds a
Service quiet is given out at once. One that follows is gathered with those behind it, for two reasons:

- ``period``, the operator's: as upstream's ``--endpointslice-updates-batch-period``, by which upstream delays every
  change, here those alone that follow another within the period. That costs one write more than upstream has in each
  burst, the first, and no other: from there on both gather alike.
- the cost of what was written: a rollout of 1,000 Pods touches ten slices with every few Pods. Each Service may write
  ``burst`` slices at once and then ``writes_per_second``; what is beyond waits, ``longest`` at most, since freshness is
  worth more than writes. Upstream's whole controller has 20 requests a second and a burst of 30, and no such limit.
"""

from dataclasses import dataclass
from math import inf
from typing import Final

from zoneward.client.backoff import Backoff


@dataclass(frozen=True, slots=True)
class Pace:
    """What is remembered of one Service: when it was last given out and written (s), and until when its writes are
    paid for at the rate allowed (s)."""

    written: float = -inf
    paid: float = -inf


NEVER_WRITTEN: Final = Pace()


@dataclass(frozen=True, slots=True, kw_only=True)
class Batching:
    """``period`` and ``longest`` in seconds; ``burst`` and ``writes_per_second`` in slices of one Service.

    No change waits longer than the greater of ``period`` and ``longest``.
    """

    period: float = 0.0
    writes_per_second: float = 10.0
    burst: float = 10.0
    longest: float = 0.5

    def __post_init__(self) -> None:
        for name, least in (("period", 0.0), ("burst", 0.0), ("longest", 0.0)):
            if not least <= getattr(self, name) < inf:
                raise ValueError(f"{name}: expected a number from {least:g}, got {getattr(self, name)}")
        if not self.writes_per_second > 0:
            raise ValueError(f"writes_per_second: expected a number above 0, got {self.writes_per_second}")

    def due(self, changed: float, pace: Pace) -> float:
        """When a change is given out that came at ``changed`` and found no other waiting."""
        if changed >= self.quiet_from(pace):
            return changed
        return max(changed + self.period, min(self._affordable(pace), changed + self.longest))

    def quiet_from(self, pace: Pace) -> float:
        """From when on a change is given out at once."""
        return max(pace.written + self.period, self._affordable(pace))

    def forgotten_from(self, pace: Pace) -> float:
        """From when on a pace says no more than none: all that was written is paid for."""
        return max(pace.written + self.period, pace.paid)

    def after(self, pace: Pace, *, given: float, writes: int) -> Pace:
        """The pace after so many slices were written for what was given out at ``given``.

        Without writes nothing has to be gathered: the next change finds the Service as quiet as it was.
        """
        if not writes:
            return pace
        return Pace(written=given, paid=max(pace.paid, given) + writes / self.writes_per_second)

    def _affordable(self, pace: Pace) -> float:
        return pace.paid - self.burst / self.writes_per_second


BACKOFF: Final = Backoff(initial=0.25, cap=60.0, jitter=0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequeueDelay:
    """How long a Service waits after failures, in seconds.

    ``with_news``: what failed may well go better after a change, so that one waits no longer than this. A time that
    the server asked for is always waited out, and with a change nothing more.
    """

    backoff: Backoff = BACKOFF
    with_news: float = 2.0
