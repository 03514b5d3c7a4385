"""Server-side apply: who applies owns what it says, keeps others from it, and lets go of what it says no more.

As upstream's ``structured-merge-diff`` (v6.3, ``merge``) and ``k8s.io/apimachinery/pkg/util/managedfields`` (v1.36).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from zoneward.kube.formats import quoted
from zoneward.sandbox.server.comparing import Comparison, compare
from zoneward.sandbox.server.field_sets import Fields, difference, intersection, paths, union, without
from zoneward.sandbox.server.fitting import problems
from zoneward.sandbox.server.kinds import Kind
from zoneward.sandbox.server.managed_fields import (
    Entry,
    as_time,
    read_entries,
    released,
    reset_fields,
    stripped,
    track,
    with_entries,
)
from zoneward.sandbox.server.merging import fields_of, merged, removed, with_structs
from zoneward.sandbox.server.refusals import Refusal, bad_request
from zoneward.sandbox.server.schema import MisfitError, Type, empty_of, restored_as, type_of

Object = dict[str, Any]
"""JSON as a dictionary."""

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_MAX_ANNOTATIONS: Final = 256 * 1024


def apply(
    live: Object | None,
    applied: Object,
    *,
    kind: Kind,
    manager: str,
    now: datetime,
    force: bool = False,
    subresource: str = "",
) -> Object:
    """What the object is afterwards, its entries included; ``live`` is None where there is none yet.

    ``applied`` is as the client sent it: its absent fields are absent. Defaults, rules, names and resource versions are
    the caller's; what changes only times in the entries is no change, as
    `zoneward.sandbox.server.managed_fields.is_same` has it.
    Raises Refusal: 409 with what others own, 400 for another kind, 500 for what does not fit the type, as upstream.
    """
    _judge(applied, kind)
    before = _tracked(live, kind, now=now, subresource=subresource) if live is not None else empty_of(kind)
    work = _Work(kind, type_of(kind), before, applied, Entry(manager, "Apply", kind.api, {}, subresource), now)
    try:
        return work.done(force=force)
    except _ConflictsError as conflicts:
        # What kubectl has applied as a client so far is its own, whatever name it had then.
        if manager != "kubectl" or not (mine := _applied_by_client(before, kind)):
            raise conflicts.refusal() from None
        if others := conflicts.except_for(mine):
            raise others.refusal() from None
        return work.done(force=True)


def _judge(applied: Object, kind: Kind) -> None:
    api, told = applied.get("apiVersion") or "", applied.get("kind") or ""
    if (api, told) != (kind.api, kind.kind):
        group, _, version = str(api).rpartition("/")
        raise bad_request(f"invalid object type: {group}/{version}, Kind={told}")
    metadata = applied.get("metadata")
    if isinstance(metadata, dict) and metadata.get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    found = list(problems(applied, type_of(kind)))
    if found:
        listed = found[0] if len(found) == 1 else "\n  ".join(["errors:", *found])
        raise _failed("failed to create typed patch object", applied, kind, listed)


def _failed(what: str, applied: Object, kind: Kind, problem: str) -> Refusal:
    """Upstream takes these mistakes for its own: 500, without a reason."""
    metadata = applied.get("metadata")
    told = metadata if isinstance(metadata, dict) else {}
    names = [name if isinstance(name := told.get(each), str) else "" for each in ("namespace", "name")]
    return Refusal(500, "", f"{what} ({'/'.join(names)}; {_version_of(kind)}): {problem}")


def _version_of(kind: Kind) -> str:
    return f"{kind.group}/{kind.version}, Kind={kind.kind}"


def _tracked(live: Object, kind: Kind, *, now: datetime, subresource: str) -> Object:
    """With an entry for all that is there already, where nobody has tracked it."""
    if read_entries(live):
        return live
    new = with_entries(live, [])
    return track(new, None, kind, manager="before-first-apply", now=now, subresource=subresource)


@dataclass(frozen=True, slots=True)
class _Work:
    """One apply; ``entry`` is the applying manager's, still without fields."""

    kind: Kind
    type: Type
    live: Object
    applied: Object
    entry: Entry
    now: datetime

    def done(self, *, force: bool) -> Object:
        ignored = reset_fields(self.kind, self.entry.subresource)
        entries = read_entries(self.live) or []
        last = next((each for each in entries if each.identity == self.entry.identity), None)
        others = [each for each in entries if each is not last]
        fields = without(fields_of(self.applied, self.type), ignored)
        new = merged(self.live, self.applied, self.type)
        if last is not None:
            new = self._pruned(new, last.fields, [*(each.fields for each in others), fields])
        found = compare(self.live, new, self.type)
        others = self._released(others, found, ignored, force=force)
        is_changed = bool(found.removed or found.modified or found.added)
        time = as_time(self.now) if is_changed else (last.time if last is not None else "")
        mine = Entry(self.entry.manager, "Apply", self.kind.api, stripped(fields), self.entry.subresource, time)
        made = with_entries(self._restored(new), [*others, mine])
        return _with_last_applied(made, self.applied) if self.entry.manager == "kubectl" else made

    def _pruned(self, new: Object, last: Fields, owned: Sequence[Fields]) -> Object:
        """Without what this manager applied last time and does not now, unless somebody else owns it."""
        every = with_structs(fields_of(new, self.type), self.type)
        last = with_structs(last, self.type)
        all_owned: Fields = {}
        for each in owned:
            all_owned = union(all_owned, each)
        pruned = removed(new, last, self.type) or {}
        kept = union(self._structs_of(pruned), with_structs(all_owned, self.type))
        pruned = removed(new, difference(every, kept), self.type) or {}
        # What nobody owns goes only if this manager had it.
        gone = intersection(difference(every, self._structs_of(pruned)), last)
        left: Object = removed(new, gone, self.type) or {}
        return left

    def _structs_of(self, thing: Object) -> Fields:
        return with_structs(fields_of(thing, self.type), self.type)

    def _released(self, others: list[Entry], found: Comparison, ignored: Fields, *, force: bool) -> list[Entry]:
        changed, gone = without(found.changed, ignored), without(found.removed, ignored)
        if not force:
            conflicts = [(each, shared) for each in others if (shared := intersection(each.fields, changed))]
            if conflicts:
                raise _ConflictsError(conflicts)
        return released(others, changed, gone)

    def _restored(self, new: Object) -> Object:
        try:
            thing, _ = restored_as(new, self.kind, old=self.live)
        except MisfitError as misfit:
            problem = f"unable to convert unstructured object to {_version_of(self.kind)}: {misfit}"
            words = "failed to convert new object"
            refusal = _failed(words, self.applied, self.kind, problem)
            refusal.message = refusal.message.replace("): ", ") to proper version: ", 1)
            raise refusal from None
        return thing


class _ConflictsError(Exception):
    """Others own what would change: an entry, and what of it."""

    def __init__(self, conflicts: Sequence[tuple[Entry, Fields]]) -> None:
        super().__init__()
        self._conflicts = sorted(conflicts, key=lambda each: each[0].identity)

    def except_for(self, fields: Fields) -> "_ConflictsError | None":
        left = [(entry, rest) for entry, shared in self._conflicts if (rest := difference(shared, fields))]
        return _ConflictsError(left) if left else None

    def refusal(self) -> Refusal:
        told = [(_told(entry), list(paths(fields))) for entry, fields in self._conflicts]
        causes = [
            {"reason": "FieldManagerConflict", "message": f"conflict with {who}", "field": path}
            for who, listed in told
            for path in listed
        ]
        if len(causes) == 1:
            words = f"1 conflict: {causes[0]['message']}: {causes[0]['field']}"
        else:
            lines = [line for who, listed in told for line in (f"conflicts with {who}:", *(f"- {p}" for p in listed))]
            words = f"{len(causes)} conflicts: " + "\n".join(lines)
        return Refusal(409, "Conflict", f"Apply failed with {words}", details={"causes": causes})


def _told(entry: Entry) -> str:
    who = quoted(entry.manager)
    if entry.subresource:
        who += f" with subresource {quoted(entry.subresource)}"
    return f"{who} using {entry.api}" if entry.operation == "Update" else who


# --- kubectl's annotation ---------------------------------------------------------------------------------------------


def _applied_by_client(live: Object, kind: Kind) -> Fields:
    """What kubectl's annotation says and the object still has; empty without a readable annotation."""
    text = (live["metadata"].get("annotations") or {}).get(LAST_APPLIED)
    try:
        last = json.loads(text) if text else None
    except ValueError:
        return {}
    if not isinstance(last, dict) or last.get("apiVersion") != kind.api or any(problems(last, type_of(kind))):
        return {}
    found = compare(last, live, type_of(kind))
    return difference(difference(fields_of(last, type_of(kind)), found.changed), found.removed)


def _with_last_applied(thing: Object, applied: Object) -> Object:
    """kubectl keeps its annotation up to date, where there is one, for older ones that apply as clients."""
    annotations = thing["metadata"].get("annotations") or {}
    if not annotations.get(LAST_APPLIED):
        return thing
    metadata = dict(applied.get("metadata") or {})
    told = {name: each for name, each in (metadata.get("annotations") or {}).items() if name != LAST_APPLIED}
    metadata = {name: each for name, each in metadata.items() if name != "annotations"}
    metadata |= {"annotations": told} if told else {}
    text = json.dumps({**applied, "metadata": metadata}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    new = {**annotations, LAST_APPLIED: f"{text}\n"}
    if sum(len(f"{name}{each}".encode()) for name, each in new.items()) > _MAX_ANNOTATIONS:
        del new[LAST_APPLIED]
    return {**thing, "metadata": {**thing["metadata"], "annotations": new}}
