"""Changes of decisions, as JSON lines for scripts and as lines of a log."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal

import msgspec

from zoneward.advice.decisions import DecisionDocument
from zoneward.kube.safe_text import escape_json

_WORDS: Final = {"ADDED": "new", "CHANGED": "changed", "REMOVED": "gone"}


@dataclass(frozen=True, slots=True)
class DecisionChange:
    """The change of one decision. ``old`` is None where it is new, ``new`` where it is gone."""

    old: DecisionDocument | None
    new: DecisionDocument | None

    @property
    def type(self) -> Literal["ADDED", "CHANGED", "REMOVED"]:
        if self.old is None:
            return "ADDED"
        return "CHANGED" if self.new is not None else "REMOVED"

    @property
    def view(self) -> DecisionDocument:
        """The decision as it is now; one that is gone, as it was last."""
        view = self.new or self.old
        assert view is not None
        return view


def change_json(change: DecisionChange, *, now: datetime) -> bytes:
    """``{"type": ..., "time": ..., "decision": {...}}`` on one line."""
    return _line({"type": change.type, "time": _time(now), "decision": change.view})


def synced_json(*, services: int, decisions: int, now: datetime) -> bytes:
    """The line after the decisions of all Services that were there at the beginning."""
    return _line({"type": "SYNCED", "time": _time(now), "services": services, "decisions": decisions})


def change_text(change: DecisionChange, *, now: datetime, shows_slices: bool = True) -> str:
    """One line for a log: the time, the Service, and what is different.

    ``12:00:00 changed shop/cart: endpoints 6 > 7, in zone 97% > 86%, slices ~1 =2``. Times as ``now`` has them.
    """
    view = change.view
    family = "" if view.address_type == "IPv4" else f" {view.address_type}"
    head = f"{now:%Y-%m-%d %H:%M:%S} {_WORDS[change.type]} {view.namespace}/{view.service}{family}"
    if change.type == "REMOVED":
        return head
    differences = _describe_differences(change.old, view, shows_slices=shows_slices)
    return f"{head}: {', '.join(differences)}" if differences else head


def _describe_differences(old: DecisionDocument | None, new: DecisionDocument, *, shows_slices: bool) -> list[str]:
    parts = [
        _step("endpoints", str(old.endpoints) if old else None, str(new.endpoints)),
        _step("in zone", _percent(old.in_zone_traffic) if old else None, _percent(new.in_zone_traffic)),
        _step("now", _now(old) if old else None, _now(new)) if new.now or (old and old.now) else "",
        _step("dropped", _percent(old.dropped_traffic) if old else "0%", _percent(new.dropped_traffic or 0.0)),
        _step("worst", _percent(old.max_overload, "+") if old else None, _percent(new.max_overload, "+")),
        _step("slices", _slices(old) if old else None, _slices(new)) if shows_slices else "",
    ]
    if old is not None and old.endpoints == new.endpoints and _located(old) != _located(new):
        parts.append("endpoints in other zones")
    if old is None or _reason(old) != _reason(new):
        parts.append(f"{'active' if new.active else 'not active'}: {new.reason}")
    differences = [part for part in parts if part]
    if old is not None and not differences:
        names = (name for name in DecisionDocument.__struct_fields__ if getattr(old, name) != getattr(new, name))
        differences = [f"other {name.replace('_', ' ')}" for name in names]
    return differences


def _step(name: str, old: str | None, new: str) -> str:
    if old == new:
        return ""
    return f"{name} {new}" if old is None else f"{name} {old} > {new}"


def _reason(view: DecisionDocument) -> tuple[object, ...]:
    return view.approach, view.heuristic, view.active, view.reason


def _located(view: DecisionDocument) -> dict[str, int]:
    return {zone: figures.located for zone, figures in view.zones.items()}


def _percent(share: float | None, sign: str = "") -> str:
    return "-" if share is None else f"{sign}{share:.0%}"


def _now(view: DecisionDocument) -> str:
    """The shares of traffic in its zone and the worst overload that the slices in force give."""
    if view.now is None:
        return "-"
    return f"{_percent(view.now.in_zone_traffic)} {_percent(view.now.max_overload, '+')}"


def _slices(view: DecisionDocument) -> str:
    counts = view.slices
    signs = (("+", counts.create), ("~", counts.update), ("-", counts.delete), ("=", counts.unchanged))
    return " ".join(f"{sign}{count}" for sign, count in signs if count) or "none"


def _time(now: datetime) -> str:
    return now.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _line(document: dict[str, Any]) -> bytes:
    return escape_json(msgspec.json.encode(document)) + b"\n"
