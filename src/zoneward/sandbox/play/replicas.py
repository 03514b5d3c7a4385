"""How many pods come and go, in numbers: as the controllers of Deployments and ReplicaSets decide it."""

from dataclasses import dataclass
from math import cos, pi
from random import Random

from zoneward.sandbox.play.plays import MAX_REPLICAS, Autoscale, Point


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Pods to create, and of those that there are, to delete."""

    create: int = 0
    delete_new: int = 0
    delete_old_unready: int = 0
    delete_old_ready: int = 0

    def __bool__(self) -> bool:
        return bool(self.create or self.delete_new or self.delete_old_unready or self.delete_old_ready)


def change_of(
    *, replicas: int, surge: int, unavailable: int, new: int, new_ready: int, old: int, old_ready: int
) -> Change:
    """What to do next. Pods that are terminating count nowhere; ``old`` ones are of an earlier template.

    No more than ``replicas`` + ``surge`` pods, and while there are old ones, no ready pod is deleted that makes fewer
    than ``replicas`` - ``unavailable``.
    """
    delete_new = max(0, new - replicas)
    new, new_ready = new - delete_new, min(new_ready, replicas)
    create = max(0, min(replicas - new, replicas + surge - new - old if old else replicas))
    spare = max(0, new_ready + old - (replicas - unavailable))
    unready = min(old - old_ready, spare)
    ready = min(old_ready, spare - unready)
    return Change(create=create, delete_new=delete_new, delete_old_unready=unready, delete_old_ready=ready)


def replicas_at(curve: Autoscale, elapsed: float, chance: Random) -> int:
    """What the curve says so many seconds after its start. Draws one number, whatever the noise."""
    if curve.wave is not None:
        low, high = curve.wave.low, curve.wave.high
        exact = low + (high - low) * (1 - cos(2 * pi * elapsed / curve.wave.period)) / 2
    else:
        exact = _between(curve.points, elapsed)
    noisy = exact * (1 + curve.noise * chance.uniform(-1, 1))
    return min(MAX_REPLICAS, max(0, round(noisy)))


def _between(points: tuple[Point, ...], elapsed: float) -> float:
    before, after = points[0], points[-1]
    for point in points:
        if point.at <= elapsed:
            before = point
        else:
            after = point
            break
    if after.at <= before.at or elapsed <= before.at:
        return before.replicas
    return before.replicas + (after.replicas - before.replicas) * (elapsed - before.at) / (after.at - before.at)
