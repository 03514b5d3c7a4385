"""What a play wants done to the objects of the server, as values; and a patch applied to an object."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

Object = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    thing: Object
    place: str = ""
    """Where it stands in the play's file; empty: nowhere."""

    @property
    def kind(self) -> str:
        return str(self.thing["kind"])

    @property
    def namespace(self) -> str:
        return str(self.thing["metadata"].get("namespace", ""))

    @property
    def name(self) -> str:
        return str(self.thing["metadata"]["name"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """``patch`` is for `patched`."""

    kind: Literal["Pod", "Node"]
    namespace: str = ""
    name: str
    patch: Object
    is_status: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind:
    """A pod that waits for a node has one."""

    namespace: str
    name: str
    node: str

    @property
    def kind(self) -> Literal["Pod"]:
        return "Pod"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """``grace``: seconds; None: the pod's own, 0: at once."""

    kind: Literal["Pod", "Node"]
    namespace: str = ""
    name: str
    grace: int | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """A line to report."""

    line: str


Action = Create | Patch | Bind | Delete | Message

_KEYS: Final[dict[str, Callable[[Object], object]]] = {
    "conditions": lambda item: item["type"],
    "containerStatuses": lambda item: item["name"],
    "taints": lambda item: (item["key"], item["effect"]),
}
"""Lists that other clients write to as well, with the key of an item."""


def patched(thing: Object, patch: Object) -> Object:
    """A new object: ``thing`` as a strategic merge patch changes it, with the few lists that a play touches.

    None removes a field, an item with ``$patch: delete`` removes its counterpart. Conditions keep their transition time
    while their status stays. Parts are shared with both.
    """
    merged = dict(thing)
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict):
            merged[name] = patched(merged.get(name) or {}, value)
        elif name in _KEYS:
            merged[name] = _united(merged.get(name) or [], value, _KEYS[name])
            if not merged[name]:
                del merged[name]
        else:
            merged[name] = value
    return merged


def _united(old: list[Object], new: list[Object], key: Callable[[Object], object]) -> list[Object]:
    items = {key(item): item for item in old}
    for item in new:
        if item.get("$patch") == "delete":
            items.pop(key(item), None)
        else:
            before = items.get(key(item), {})
            items[key(item)] = after = patched(before, item)
            if "lastTransitionTime" in after and before.get("status") == after["status"]:
                # The time when the status changed, not when it was written.
                after["lastTransitionTime"] = before.get("lastTransitionTime", after["lastTransitionTime"])
    return list(items.values())
