"""Schedules that found a mistake, each as short as it could be made."""

from dataclasses import replace
from typing import Final

from tests.controller.model.schedules import Schedule, Step, made


def _schedule(*steps: Step) -> Schedule:
    """One replica, two Services with 4 Pods in three zones, and everything works."""
    return replace(made(bytes(8), ()), steps=steps)


ONCE_FAILED: Final = {
    "a-slice-that-was-written-before-a-restart-is-deleted": _schedule(
        Step("kill", 0, 0, 1.0),
        Step("meddle", 0, 3, 1.0),
    ),
    "a-service-is-replaced-before-all-of-it-is-told": _schedule(
        Step("ask", 0, 1, 0.002),
        Step("replace_service", 0, 0, 0.0),
    ),
    "a-service-is-replaced-while-the-one-before-is-told-in-vain": _schedule(
        Step("replace_service", 20, 4, 0.0),
        Step("replace_service", 20, 4, 0.0),
    ),
    "what-a-plan-would-have-told-that-was-not-written": _schedule(
        Step("ask", 0, 6, 1.0),
        Step("meddle_before_next_write", 3, 9, 0.0),
        Step("node", 0, 4, 0.002),
        Step("node", 0, 0, 1.0),
    ),
}
