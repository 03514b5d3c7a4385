"""Predicted traffic of single Services, for metrics: computed in the background, for a bounded number of Services.

A prediction visits every endpoint. A sync does not, so it only calls `touch`; `run` then predicts in a thread, at most
one Service every ``pause`` seconds.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NoReturn

from zoneward.kube.objects import ObjectKey
from zoneward.slices.plan import ServicePlan

LIMIT: Final = 1_000
"""Services with their own series."""
_DIGITS: Final = 6


@dataclass(frozen=True, slots=True)
class Prediction:
    """Shares: ``in_zone`` of all requests, None where no zone is known; ``max_overload`` above a fair load (0.5 = 50 %
    more)."""

    in_zone: float | None
    max_overload: float


PredictionsByFamily = Mapping[str, Prediction]
"""By address type, for the families whose traffic can be predicted."""
Predict = Callable[[ObjectKey], Callable[[], PredictionsByFamily] | None]
"""Reads what is needed, in the event loop, and returns the work for a thread; None: no such Service."""


class Predictions:
    """The first Services have series, up to ``limit``; when one is deleted, another one replaces it."""

    def __init__(self, *, limit: int = LIMIT) -> None:
        self._limit = limit
        self._made: dict[ObjectKey, PredictionsByFamily] = {}
        self._left_out: dict[ObjectKey, None] = {}
        self._due: dict[ObjectKey, None] = {}
        self._wake_up = asyncio.Event()

    def touch(self, service: ObjectKey) -> None:
        """A Service has changed."""
        if service not in self._made:
            if len(self._made) >= self._limit:
                self._left_out[service] = None
                return
            self._made[service] = {}
        self._due[service] = None
        self._wake_up.set()

    def drop(self, service: ObjectKey) -> None:
        """A Service was deleted: drop its series."""
        self._left_out.pop(service, None)
        self._due.pop(service, None)
        if self._made.pop(service, None) is not None and self._left_out:
            follower = next(iter(self._left_out))
            del self._left_out[follower]
            self.touch(follower)

    @property
    def due(self) -> tuple[ObjectKey, ...]:
        """Services that have changed since their last prediction."""
        return tuple(self._due)

    @property
    def is_idle(self) -> bool:
        """Whether no prediction is due."""
        return not self._wake_up.is_set()

    @property
    def left_out(self) -> int:
        """Services beyond the limit."""
        return len(self._left_out)

    def __iter__(self) -> Iterator[tuple[ObjectKey, str, Prediction]]:
        """Service, address type and prediction; nothing for a Service without one so far."""
        for service, families in self._made.items():
            for family, prediction in families.items():
                yield service, family, prediction

    async def run(
        self,
        predict: Predict,
        *,
        pause: float = 0.05,
        on_error: Callable[[ObjectKey, Exception], None] = lambda *_: None,
    ) -> NoReturn:
        """Run until cancelled. ``on_error`` gets what a prediction raises; the Service then has no prediction."""
        while True:
            await self._wake_up.wait()
            while self._due:
                service = next(iter(self._due))
                del self._due[service]
                made: PredictionsByFamily = {}
                try:
                    work = predict(service)
                    if work is not None:
                        made = await asyncio.to_thread(work)
                except Exception as error:
                    on_error(service, error)
                # It may be deleted by now.
                if service in self._made:
                    self._made[service] = made
                await asyncio.sleep(pause)
            self._wake_up.clear()


def predictions_of(plan: ServicePlan) -> PredictionsByFamily:
    """The predicted traffic of each address family of a plan."""
    return {
        family.address_type: Prediction(
            in_zone=None if traffic.in_zone is None else round(traffic.in_zone, _DIGITS),
            max_overload=round(traffic.max_overload, _DIGITS),
        )
        for family in plan.families
        if (traffic := family.traffic) is not None
    }
