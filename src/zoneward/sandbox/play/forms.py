"""Fields of a play's file beyond those of `document_fields`: numbers, times, quantities, labels, no unknown ones."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from zoneward.kube import formats, quantity
from zoneward.kube.document_fields import DocumentFields
from zoneward.kube.input_error import show
from zoneward.sandbox.play.durations import EXPECTED_SPAN, Span, parse_duration, parse_span

_Value = TypeVar("_Value")
_LONGEST = 10 * 365 * 86_400.0


class Form:
    """A mapping with a known set of fields. Every method raises InputError, as those of `DocumentFields` do."""

    def __init__(self, fields: DocumentFields, known: Sequence[str]) -> None:
        self.fields = fields
        for name in fields.names():
            if name not in known:
                raise fields.error("", f"one of {', '.join(known)}", show(name))

    def __contains__(self, name: str) -> bool:
        return self.fields.raw(name) is not None

    def wrong(self, name: str, expected: str) -> Exception:
        value = self.fields.raw(name)
        return self.fields.error(name, expected, "none" if value is None else show(value))

    def text(self, name: str, default: str) -> str:
        return self.fields.text(name) or default

    def flag(self, name: str, *, default: bool) -> bool:
        return self.fields.flag(name) if name in self else default

    def whole(self, name: str, default: int | None, *, least: int, most: int) -> int:
        """A whole number; without a default it has to be there."""
        value = self.fields.raw(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.wrong(name, f"a whole number from {least} to {most}")
        return value

    def number(self, name: str, default: float, *, most: float) -> float:
        """Above 0."""
        value = self.fields.raw(name)
        if value is None:
            return default
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= most:
            raise self.wrong(name, f"a number above 0, up to {most:g}")
        return float(value)

    def seconds(self, name: str, default: float | None = None, *, above: float | None = None) -> float:
        """A time; a bare number is seconds. Without a default it has to be there."""
        if name not in self and default is not None:
            return default
        value = self._parsed(name, parse_duration)
        if above is not None and value <= above:
            raise self.wrong(name, f"a time above {above:g}")
        return value

    def maybe_seconds(self, name: str, *, above: float | None = None) -> float | None:
        return self.seconds(name, above=above) if name in self else None

    def span(self, name: str, default: Span) -> Span:
        if name not in self:
            return default
        span = self._parsed(name, parse_span)
        if span.most <= 0:
            raise self.wrong(name, EXPECTED_SPAN)
        return span

    def cpu(self, name: str, default: int) -> int:
        """Thousandths."""
        value = self.fields.raw(name)
        if value is None:
            return default
        try:
            milli = quantity.in_milli(quantity.parse(value)) if isinstance(value, str | int | float) else 0
        except ValueError:
            milli = 0
        if isinstance(value, bool) or not 0 < milli <= 10**7:
            raise self.wrong(name, "CPUs such as 4 or 250m")
        return milli

    def choice(self, name: str, default: str, choices: Iterable[str]) -> str:
        value = self.text(name, default)
        listed = list(choices)
        if value not in listed:
            raise self.wrong(name, f"one of {', '.join(listed)}")
        return value

    def label(self, name: str, default: str | None) -> str:
        """A DNS label, short enough for names made of it; without a default it has to be there."""
        value = self.text(name, default or "")
        if len(value) > 40 or next(formats.label_problems(value), None):
            raise self.wrong(name, "lower case letters, digits and '-', 1 to 40 of them")
        return value

    def zone(self, name: str) -> str:
        return self._zone(name, self.fields.text(name))

    def zones(self, name: str) -> tuple[str, ...]:
        return tuple(self._zone(f"{name}[{i}]", zone) for i, zone in enumerate(self.fields.texts(name)))

    def labels(self, name: str) -> dict[str, str]:
        found = self.strings(name)
        inner = self.fields.inner(name)
        for key, value in found.items():
            if next(formats.qualified_name_problems(key), None):
                raise inner.error("", "keys that labels can have", show(key))
            if next(formats.label_value_problems(value), None):
                raise inner.error(key, "a value that labels can have", show(value))
        return found

    def strings(self, name: str) -> dict[str, str]:
        inner = self.fields.inner(name)
        return {key: inner.text(key) for key in inner.names()}

    def inner(self, name: str, known: Sequence[str]) -> "Form":
        return Form(self.fields.inner(name), known)

    def items(self, name: str, known: Sequence[str]) -> Iterator["Form"]:
        return (Form(item, known) for item in self.fields.items(name))

    def _zone(self, name: str, zone: str) -> str:
        if not zone or next(formats.label_value_problems(zone), None):
            raise self.fields.error(name, "the name of a zone", show(zone) if zone else "none")
        return zone

    def _parsed(self, name: str, parse: Callable[[str], _Value]) -> _Value:
        value = self.fields.raw(name)
        text = f"{value:f}s" if isinstance(value, int | float) and not isinstance(value, bool) else value
        try:
            parsed = parse(text if isinstance(text, str) else "")
        except ValueError as error:
            raise self.wrong(name, str(error)) from None
        longest = parsed.most if isinstance(parsed, Span) else parsed
        if isinstance(longest, float) and longest > _LONGEST:
            raise self.wrong(name, "a time of no more than ten years")
        return parsed
