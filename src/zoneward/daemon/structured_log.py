"""The log of a program that runs for long: JSON or text, one line for each event, by default on standard error.

Needs ``structlog``, which comes with the extra ``controller``. Lines that repeat (the same level, event, Service,
family and reason) are written a few times a minute; the next one then says how many were left out. No caller passes
secrets to the log; values that look like secrets are masked all the same.
"""

import logging
import re
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from typing import Any, BinaryIO, Final, cast

import msgspec
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from zoneward.daemon.log import Log, LogFormat, RepeatFilter
from zoneward.kube.safe_text import printable


class Level(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


REPEAT_FIELDS: Final = ("level", "event", "service", "family", "reason")
"""Lines with the same values in these fields repeat each other."""
MAX_FIELD_LENGTH: Final = 1_000
"""Characters of a field."""
_MASK: Final = "(masked)"
_SECRET_FIELDS: Final = re.compile(r"token|password|secret|authorization|client_key|private_key", re.IGNORECASE)
_SECRETS: Final = re.compile(
    r"(?i:bearer|basic)\s+[\w.~+/=-]{8,}"  # the header Authorization
    # A token of a service account. Whether its word ends in a full stop is asked first and once for each word: from
    # each "eyJ" of "eyJeyJ...", it takes quadratic time.
    r"|(?<![\w-])(?=[\w-]*+\.[\w-]{10})[\w-]*?eyJ[\w-]{10,}\.[\w-]{10,}(?:\.[\w-]*)?"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)"
    r"|(?<=://)[^\s/@:]+:[^\s/@]+(?=@)",  # user and password in an address
    re.DOTALL,
)
_NUMBERS: Final = {
    Level.DEBUG: logging.DEBUG,
    Level.INFO: logging.INFO,
    Level.WARNING: logging.WARNING,
    Level.ERROR: logging.ERROR,
}


def new_log(
    *,
    form: LogFormat = LogFormat.JSON,
    level: Level = Level.INFO,
    stream: BinaryIO | None = None,
    repeats: RepeatFilter | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Log:
    """A log that writes lines of ``level`` and above to ``stream``.

    ``clock`` counts seconds. Libraries such as aiohttp write to the standard library's ``logging``: see
    `redirect_logging`.
    """
    processors: list[Processor] = [
        structlog.processors.add_log_level,
        _drop_repeats(repeats or RepeatFilter(), clock),
        _mask_secrets,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        _as_json if form is LogFormat.JSON else _as_text,
    ]
    return cast(
        Log,
        structlog.wrap_logger(
            structlog.BytesLogger(cast(BinaryIO, _ErrorTolerantStream(stream or sys.stderr.buffer))),
            processors=processors,
            wrapper_class=structlog.make_filtering_bound_logger(_NUMBERS[level]),
            context_class=dict,
            cache_logger_on_first_use=True,
        ),
    )


class _ErrorTolerantStream:
    """A stream whose reader is gone, or whose disk is full, does not end the program."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, line: bytes) -> None:
        with suppress(OSError, ValueError):
            self._stream.write(line)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()


def redirect_logging(log: Log, *, level: Level = Level.WARNING) -> None:
    """Write what libraries log with the standard library's ``logging`` as lines of this log."""
    logging.basicConfig(handlers=[_Handler(log)], level=_NUMBERS[level], force=True)


class _Handler(logging.Handler):
    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        write = self._log.error if record.levelno >= logging.ERROR else self._log.warning
        if record.levelno < logging.WARNING:
            write = self._log.info
        error = record.exc_info[1] if record.exc_info else None
        fields = {} if error is None else {"error": f"{type(error).__name__}: {error}"}
        # Lines repeat each other by the name of the logger: their text has numbers in it.
        write("a library logged a message", reason=record.name, message=record.getMessage(), **fields)


# --- processors of a line ---------------------------------------------------------------------------------------------


def _drop_repeats(repeats: RepeatFilter, clock: Callable[[], float]) -> Processor:
    def drop_repeats(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        left_out = repeats.decide(tuple(event.get(field) for field in REPEAT_FIELDS), now=clock())
        if left_out is None:
            raise structlog.DropEvent
        if left_out:
            event["left_out"] = left_out
        return event

    return drop_repeats


def _mask_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    for field, value in event.items():
        if _SECRET_FIELDS.search(field):
            event[field] = _MASK
        elif isinstance(value, str):
            event[field] = _SECRETS.sub(_MASK, value) if len(value) <= MAX_FIELD_LENGTH else _cut(value)
        elif not isinstance(value, int | float | bool | None):
            event[field] = _cut(str(value))
    return event


def _cut(value: str) -> str:
    # Masked before it is cut: half a secret is one.
    masked = _SECRETS.sub(_MASK, value)
    return masked if len(masked) <= MAX_FIELD_LENGTH else masked[:MAX_FIELD_LENGTH] + "..."


def _ordered(event: EventDict) -> dict[str, Any]:
    """What every line has, first."""
    rest = {field: value for field, value in event.items() if field not in ("time", "level", "event")}
    return {"time": event["time"], "level": event["level"], "event": event["event"], **rest}


def _as_json(_logger: WrappedLogger, _method: str, event: EventDict) -> bytes:
    return msgspec.json.encode(_ordered(event))


_PLAIN: Final = re.compile(r"[^\s\"=]+")


def _as_text(_logger: WrappedLogger, _method: str, event: EventDict) -> bytes:
    fields = _ordered(event)
    words = [f"{fields.pop('time')} {fields.pop('level').upper():7} {_one_line(str(fields.pop('event')))}"]
    line = " ".join(words + [f"{field}={_quoted(value)}" for field, value in fields.items()])
    return printable(line).encode()


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _quoted(value: object) -> str:
    text = msgspec.json.encode(value).decode() if not isinstance(value, str) else value
    return text if _PLAIN.fullmatch(text) else msgspec.json.encode(text).decode()
