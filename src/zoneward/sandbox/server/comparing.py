"""Which fields two objects of a type differ in. Descends only where they are not the same Python object."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from zoneward.sandbox.server.field_sets import Fields, in_order, step_to, union, whole
from zoneward.sandbox.server.schema import Form, Type

_ABSENT: Final = object()
_STRUCT, _MAP, _LIST = Form.STRUCT, Form.MAP, Form.LIST


@dataclass(slots=True)
class Comparison:
    """Sets of fields; none of them in two. All empty: the objects are the same."""

    removed: Fields = field(default_factory=dict)
    modified: Fields = field(default_factory=dict)
    added: Fields = field(default_factory=dict)

    @property
    def changed(self) -> Fields:
        """What is there now, and was not so before."""
        return union(self.modified, self.added)

    def take(self, step: str, inner: "Comparison") -> None:
        if inner.removed:
            self.removed[step] = inner.removed
        if inner.modified:
            self.modified[step] = inner.modified
        if inner.added:
            self.added[step] = inner.added

    def sort(self) -> None:
        if len(self.removed) > 1:
            self.removed = in_order(self.removed)
        if len(self.modified) > 1:
            self.modified = in_order(self.modified)
        if len(self.added) > 1:
            self.added = in_order(self.added)


def compare(old: Mapping[str, Any], new: Mapping[str, Any], type_: Type) -> Comparison:
    """``type_`` is that of a whole object."""
    return _compare_parts(old, new, type_)


def _compare_parts(old: Mapping[str, Any], new: Mapping[str, Any], type_: Type) -> Comparison:
    found = Comparison()
    fields, items = type_.fields, type_.items
    for name, after in new.items():
        before = old.get(name, _ABSENT)
        if before is after:
            continue
        part = items or fields[name].value
        if before is _ABSENT:
            found.added[f"f:{name}"] = whole(after, part)
        else:
            _compare_values(before, after, part, f"f:{name}", found)
    if not new.keys() >= old.keys():
        for name, before in old.items():
            if name not in new:
                found.removed[f"f:{name}"] = whole(before, items or fields[name].value)
    found.sort()
    return found


def _compare_values(old: Any, new: Any, type_: Type, step: str, found: Comparison) -> None:
    form = type_.form
    is_leaf = type_.ownership == "atomic" or not (form is _STRUCT or form is _MAP or form is _LIST)
    if is_leaf or not (old or new):
        # Null and empty differ, as upstream sees it.
        if old != new:
            found.modified[step] = {}
    elif form is _LIST:
        found.take(step, _compare_items(old or (), new or (), type_))
    else:
        found.take(step, _compare_parts(old or {}, new or {}, type_))


def _compare_items(old: Any, new: Any, type_: Type) -> Comparison:
    found = Comparison()
    items = type_.items
    assert items is not None
    if len(old) == len(new):
        changed = [index for index, each in enumerate(new) if each is not old[index]]
        old, new = [old[index] for index in changed], [new[index] for index in changed]
    before, after = _by_step(old, type_), _by_step(new, type_)
    for step, (first, *more) in after.items():
        olds = before.get(step, ())
        if more or len(olds) > 1:
            _compare_duplicates(olds, [first, *more], items, step, found)
        elif not olds:
            found.added[step] = whole(first, items)
        elif olds[0] is not first:
            _compare_values(olds[0], first, items, step, found)
    for step, olds in before.items():
        if step not in after:
            # Items with the same key are owned together, as if they had no parts.
            found.removed[step] = whole(olds[0], items) if len(olds) == 1 else {}
    found.sort()
    return found


def _compare_duplicates(old: Any, new: list[Any], items: Type, step: str, found: Comparison) -> None:
    if len(old) > 1 and len(new) > 1:
        if old != new:
            found.modified[step] = {}
    elif len(old) > 1:
        found.added[step] = whole(new[0], items)
        found.removed[step] = {}
    else:
        if old:
            found.removed[step] = whole(old[0], items)
        found.added[step] = {}


def _by_step(values: Any, type_: Type) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for each in values:
        found.setdefault(step_to(each, type_), []).append(each)
    return found
