"""Label and field selectors of a request, with upstream's words for what can't be read."""

import re
from dataclasses import dataclass
from typing import Final

from zoneward.kube.label_selector import LabelSelector, SelectorError, parse_selector
from zoneward.sandbox.server.kinds import Kind
from zoneward.sandbox.server.refusals import bad_request
from zoneward.sandbox.server.store import Key, Record

_TERM: Final = re.compile(r"(?P<name>[^=!]+?)\s*(?P<operator>==|!=|=)\s*(?P<value>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects a request is about. A field is wanted to have a value, or not to have it."""

    labels: LabelSelector
    fields: tuple[tuple[str, str, bool], ...]

    @property
    def is_all(self) -> bool:
        return not self.labels.requirements and not self.fields

    def matches(self, key: Key, record: Record) -> bool:
        for field, value, wanted in self.fields:
            if field == "metadata.name":
                has = key[1]
            elif field == "metadata.namespace":
                has = key[0]
            else:
                has = record.fields.get(field, "")
            if (has == value) is not wanted:
                return False
        return not self.labels.requirements or self.labels.matches(record.labels)


def selection(kind: Kind, *, labels: str, fields: str) -> Selection:
    """Of the texts of a request; empty ones select all. Raises Refusal."""
    try:
        wanted = parse_selector(labels)
    except SelectorError as error:
        raise bad_request(error.problem) from None
    return Selection(wanted, tuple(_term(kind, term) for term in fields.split(",") if term.strip()))


def _term(kind: Kind, text: str) -> tuple[str, str, bool]:
    found = _TERM.fullmatch(text.strip())
    if found is None:
        raise bad_request(f"invalid selector: '{text}'; can't understand '{text}'")
    name = found["name"].strip()
    known = name == "metadata.name" or (name == "metadata.namespace" and kind.is_namespaced) or name in kind.selectable
    if not known and not kind.selectable:
        raise bad_request(f'"{name}" is not a known field selector: only "metadata.name", "metadata.namespace"')
    if not known:
        raise bad_request(f"field label not supported: {name}")
    return name, found["value"], found["operator"] != "!="
