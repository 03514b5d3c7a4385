"""Predicted traffic of single Services, for metrics: made beside the syncs, one by one, and for a bounded number.

A prediction looks at every endpoint. A sync does not, so none is made in one: whoever syncs a Service calls `touch`,
and `run` catches up in a thread, a Service every ``pause`` seconds at most.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NoReturn

from zoneward.client.resources import Key
from zoneward.slices.plan import ServicePlan

LIMIT: Final = 1_000
"""Services with series of their own."""
_DIGITS: Final = 6


@dataclass(frozen=True, slots=True)
class Prediction:
    """Shares: ``in_zone`` of all requests, ``max_overload`` above a fair load (0.5 = 50 % more)."""

    in_zone: float
    max_overload: float


ByFamily = Mapping[str, Prediction]
"""By address type; families of which nothing can be predicted are not in it."""
Predict = Callable[[Key], Callable[[], ByFamily] | None]
"""Gathers what is needed, in the event loop and at once, and gives what does the work, in a thread; None: no such
Service."""


class Predictions:
    """The Services that come first have series, up to ``limit``; another takes the place of one that goes."""

    def __init__(self, *, limit: int = LIMIT) -> None:
        self._limit = limit
        self._made: dict[Key, ByFamily] = {}
        self._left_out: dict[Key, None] = {}
        self._due: dict[Key, None] = {}
        self._called = asyncio.Event()

    def touch(self, service: Key) -> None:
        """A Service has changed."""
        if service not in self._made:
            if len(self._made) >= self._limit:
                self._left_out[service] = None
                return
            self._made[service] = {}
        self._due[service] = None
        self._called.set()

    def drop(self, service: Key) -> None:
        """A Service is gone, and its series with it."""
        self._left_out.pop(service, None)
        self._due.pop(service, None)
        if self._made.pop(service, None) is not None and self._left_out:
            follower = next(iter(self._left_out))
            del self._left_out[follower]
            self.touch(follower)

    @property
    def due(self) -> tuple[Key, ...]:
        """Services that have changed since they were last looked at."""
        return tuple(self._due)

    @property
    def is_idle(self) -> bool:
        """Whether all that changed has been looked at."""
        return not self._called.is_set()

    @property
    def left_out(self) -> int:
        """Services beyond the limit."""
        return len(self._left_out)

    def __iter__(self) -> Iterator[tuple[Key, str, Prediction]]:
        """Service, address type, and what is predicted; of a Service that was never looked at, nothing."""
        for service, families in self._made.items():
            for family, prediction in families.items():
                yield service, family, prediction

    async def run(
        self, predict: Predict, *, pause: float = 0.05, on_trouble: Callable[[Key, Exception], None] = lambda *_: None
    ) -> NoReturn:
        """Until cancelled. What a prediction raises is told to ``on_trouble``, and the Service has none."""
        while True:
            await self._called.wait()
            while self._due:
                service = next(iter(self._due))
                del self._due[service]
                made: ByFamily = {}
                try:
                    work = predict(service)
                    if work is not None:
                        made = await asyncio.to_thread(work)
                except Exception as error:
                    on_trouble(service, error)
                # It may have gone meanwhile.
                if service in self._made:
                    self._made[service] = made
                await asyncio.sleep(pause)
            self._called.clear()


def predictions_of(plan: ServicePlan) -> ByFamily:
    return {
        family.address_type: Prediction(
            in_zone=round(traffic.in_zone, _DIGITS), max_overload=round(traffic.max_overload, _DIGITS)
        )
        for family in plan.families
        if (traffic := family.traffic) is not None
    }
