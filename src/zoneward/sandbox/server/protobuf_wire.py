"""Messages of protobuf (proto2), as far as Kubernetes has it, into dictionaries: by tables of what their fields are.

A field that the tables do not have is skipped. Of a message that is there twice the last one counts: Go would merge
them, but nothing writes such. Errors have the words of Kubernetes' own decoder, which names fields as Go does, though:
here they have JSON's names.
"""

from dataclasses import dataclass, field
from typing import Any, Final

Object = dict[str, Any]
"""JSON as a dictionary."""

END: Final = "unexpected EOF"

_OVERFLOW: Final = "proto: integer overflow"
_GROUP_START: Final = 3
_GROUP_END: Final = 4
_FIXED: Final = {1: 8, 5: 4}
"""Bytes of a value by its wire type."""

# How a field is read; the first ones are numbers, the others have a length.
BOOLEAN: Final = 0
INT32: Final = 1
INT64: Final = 2
NUMBERS: Final = 3
STRING: Final = 4
STRUCT: Final = 5
STRINGS: Final = 6
STRUCTS: Final = 7
INLINE: Final = 8
STRING_MAP: Final = 9
LEAF: Final = 10
LEAF_MAP: Final = 11
PACKED: Final = 12


@dataclass(slots=True, eq=False)
class Message:
    """Not frozen only because it is filled once all of them are there."""

    name: str
    fields: dict[int, tuple[int, str, bool, Any]] = field(default_factory=dict)
    """By number and wire type, as they are on the wire: how to read it, its name, whether it is kept if it is zero, and
    what it holds (a message, a leaf, a number's form).
    """
    always: list[tuple[str, Any]] = field(default_factory=list)
    """What JSON has where the field is absent; a message stands for an empty one."""


def read(out: Object, message: Message, body: bytes, at: int, end: int) -> None:
    """Raises IndexError and ValueError. Long, as calls are what would take the time."""
    fields = message.fields
    while at < end:
        key = body[at]
        at += 1
        if key >= 0x80:
            key, at = _varint(body, at - 1)
        try:
            form, name, is_kept, part = fields[key]
        except KeyError:
            at = _skipped(message, key, body, at, end)
            continue
        number = body[at]
        at += 1
        if number >= 0x80:
            number, at = _varint(body, at - 1)
        if not number and not is_kept:
            continue
        if form <= NUMBERS:
            if form == BOOLEAN:
                out[name] = number != 0
            elif form == NUMBERS:
                out.setdefault(name, []).append(_signed(number, part))
            else:
                out[name] = number if number < 0x80000000 else _signed(number, form)
            continue
        stop = at + number
        if stop > end:
            raise ValueError(END)
        if form == STRING:
            try:
                out[name] = body[at:stop].decode()
            except UnicodeDecodeError:
                out[name] = _text(body[at:stop])
        elif form == STRUCT:
            inner: Object = {}
            out[name] = inner
            read(inner, part, body, at, stop)
        elif form == STRUCTS:
            inner = {}
            read(inner, part, body, at, stop)
            if name in out:
                out[name].append(inner)
            else:
                out[name] = [inner]
        elif form == LEAF:
            value = part(body[at:stop])
            if is_kept or value:
                out[name] = value
        elif form == STRING_MAP:
            word, value = _entry(body[at:stop])
            out.setdefault(name, {})[word] = _text(value)
        elif form == INLINE:
            read(out, part, body, at, stop)
        elif form == LEAF_MAP:
            word, value = _entry(body[at:stop])
            out.setdefault(name, {})[word] = part(value)
        elif form == STRINGS:
            out.setdefault(name, []).append(_text(body[at:stop]))
        else:
            numbers = out.setdefault(name, [])
            while at < stop:
                number, at = _varint(body, at)
                numbers.append(_signed(number, part))
        at = stop
    if at > end:
        raise ValueError(END)
    for name, value in message.always:
        if name not in out:
            if isinstance(value, Message):
                out[name] = inner = {}
                read(inner, value, b"", 0, 0)
            else:
                out[name] = value


def _text(value: bytes) -> str:
    # What is not UTF-8 is replaced, as Go does when it writes JSON.
    return value.decode(errors="replace")


def _varint(body: bytes, at: int) -> tuple[int, int]:
    """The number, and where it ends."""
    number = shift = 0
    while True:
        byte = body[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
        if shift >= 64:
            raise ValueError(_OVERFLOW)


def _signed(number: int, form: int) -> int:
    if form == INT32:
        number &= 0xFFFFFFFF
        return number - (1 << 32) if number >> 31 else number
    return number - (1 << 64) if number >> 63 else number


def _skipped(message: Message, key: int, body: bytes, at: int, end: int) -> int:
    """Where a field ends that has no name here."""
    number, wire = key >> 3, key & 7
    if number == 0:
        raise ValueError(f"proto: {message.name}: illegal tag {number} (wire type {wire})")
    if wire == _GROUP_END:
        raise ValueError(f"proto: {message.name}: wiretype end group for non-group")
    for other, (_, name, _, _) in message.fields.items():
        if other >> 3 == number:
            raise ValueError(f"proto: wrong wireType = {wire} for field {name}")
    depth = 0
    while True:
        if wire == 0:
            _, at = _varint(body, at)
        elif wire == 2:
            size, at = _varint(body, at)
            at += size
        elif wire in _FIXED:
            at += _FIXED[wire]
        elif wire == _GROUP_START:
            depth += 1
        elif wire == _GROUP_END:
            if not depth:
                raise ValueError("proto: unexpected end of group")
            depth -= 1
        else:
            raise ValueError(f"proto: illegal wireType {wire}")
        if at > end:
            raise ValueError(END)
        if not depth:
            return at
        key, at = _varint(body, at)
        wire = key & 7


def _entry(entry: bytes) -> tuple[str, bytes]:
    """Of a map: key, and value as it is."""
    size = len(entry)
    at = entry[1] + 2 if 3 < size < 0x80 else size
    # As Go writes it, unless it is long.
    if at + 2 <= size and entry[0] == 0x0A and entry[at] == 0x12 and entry[at + 1] == size - at - 2:
        return _text(entry[2:at]), entry[at + 2 :]
    found: Object = {"key": "", "value": b""}
    read(found, _ENTRY, entry, 0, len(entry))
    return found["key"], found["value"]


def as_it_is(value: bytes) -> bytes:
    return value


_ENTRY: Final = Message("Entry", {0x0A: (STRING, "key", True, None), 0x12: (LEAF, "value", True, as_it_is)})
