"""What happened in a demonstration so far: the plans that were written, and a log of them and of the script."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from zoneward.controller.controller_metrics import ControllerMetrics
from zoneward.kube.objects import ObjectKey
from zoneward.report.screens import LogLine
from zoneward.report.write_log import WrittenPlan, describe_write, record_plan
from zoneward.slices.plan import ServicePlan


class Story:
    """Times are seconds since it was made."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._begin = clock, clock()
        self._plans: dict[ObjectKey, ServicePlan] = {}
        self._written: dict[ObjectKey, WrittenPlan] = {}
        self._changed: dict[ObjectKey, float] = {}
        self.log: Final[list[LogLine]] = []
        self.events = 0
        """Events of Services that were told."""

    @property
    def seconds(self) -> float:
        return self._clock() - self._begin

    @property
    def plans(self) -> list[ServicePlan]:
        """The last plan of each Service, in the order of their names."""
        return [self._plans[key] for key in sorted(self._plans)]

    def marked(self, seconds: float) -> frozenset[ObjectKey]:
        """The Services that were written within so many seconds."""
        now = self.seconds
        return frozenset(key for key, then in self._changed.items() if now - then < seconds)

    def did(self, line: str) -> None:
        """Something was done to the cluster."""
        self.log.append(LogLine(self.seconds, "", line))

    def wrote(self, plan: ServicePlan) -> None:
        """All that a plan asks for is written, if it asks for anything."""
        self._tell(plan, record_plan(plan))

    def looked(self, plan: ServicePlan) -> None:
        """A Service was planned anew. What has to be written is told when it is, and so are its Events."""
        now = replace(record_plan(plan), events=())
        if not now.writes:
            self._tell(plan, now)

    def _tell(self, plan: ServicePlan, now: WrittenPlan) -> None:
        key = plan.service.metadata.namespace, plan.service.metadata.name
        before = self._written.get(key)
        # What becomes of traffic may change though nothing has to be written.
        if now.writes or now.events or (before is not None and now.demand != before.demand):
            self.log.append(LogLine(self.seconds, "/".join(key), describe_write(before, now)))
        if now.writes or now.events:
            self._changed[key] = self.seconds
        self.events += len(now.events)
        self._plans[key], self._written[key] = plan, now

    def gone(self, key: ObjectKey) -> None:
        """A Service is no longer there."""
        for known in (self._plans, self._written, self._changed):
            known.pop(key, None)


class Heard(ControllerMetrics):
    """The controller's counts, and a story that hears of each sync."""

    def __init__(self, story: Story) -> None:
        super().__init__()
        self._story = story

    def record_sync(self, plan: ServicePlan) -> None:
        super().record_sync(plan)
        self._story.wrote(plan)

    def forget_service(self, service: ObjectKey) -> None:
        super().forget_service(service)
        self._story.gone(service)
