"""One line an event, in order, without secrets, and not the same one for ever."""

import io
import json
import logging
from collections.abc import Callable

import pytest

from zoneward.daemon.log import Log, LogFormat, RepeatFilter, SilentLog
from zoneward.daemon.structured_log import MAX_FIELD_LENGTH, Level, new_log, redirect_logging


def told(tell: Callable[[Log], None], *, form: LogFormat = LogFormat.JSON, level: Level = Level.INFO) -> list[str]:
    stream = io.BytesIO()
    tell(new_log(form=form, level=level, stream=stream))
    text = stream.getvalue().decode()
    assert not text or text.endswith("\n")
    return text.split("\n")[:-1]


def test_a_line_of_json_has_its_time_level_and_event_first_and_then_what_it_was_told() -> None:
    (line,) = told(lambda log: log.info("slices written", service="shop/cart", family="IPv4", created=2, reason=None))
    fields = json.loads(line)
    assert list(fields) == ["time", "level", "event", "service", "family", "created", "reason"]
    assert list(fields.values())[1:] == ["info", "slices written", "shop/cart", "IPv4", 2, None]
    assert fields["time"].endswith("Z")


def test_a_line_of_text_can_be_read_and_taken_apart() -> None:
    (line,) = told(
        lambda log: log.warning("slices not written", service="shop/cart", error='a "b"\nc=d', left=2),
        form=LogFormat.TEXT,
    )
    assert line.partition(" ")[2] == r'WARNING slices not written service=shop/cart error="a \"b\"\nc=d" left=2'


@pytest.mark.parametrize("form", LogFormat)
def test_nothing_that_is_told_makes_a_second_line(form: LogFormat) -> None:
    (line,) = told(lambda log: log.error("a\nb", service="c\r\nd\x1b[31m", reason="\u2028"), form=form)
    assert "\x1b" not in line


@pytest.mark.parametrize("text", ["a\x1b[31m", "a\x9b31m", "a b\x7f", "\u2028"])
def test_a_line_of_text_has_nothing_that_a_terminal_obeys(text: str) -> None:
    (line,) = told(lambda log: log.error(text, reason=text), form=LogFormat.TEXT)
    assert line.isprintable()


@pytest.mark.parametrize(
    ("level", "written"), [(Level.DEBUG, "diwe"), (Level.INFO, "iwe"), (Level.WARNING, "we"), (Level.ERROR, "e")]
)
def test_lines_below_the_level_are_not_written(level: Level, written: str) -> None:
    def tell(log: Log) -> None:
        log.debug("d")
        log.info("i")
        log.warning("w")
        log.error("e")

    assert "".join(json.loads(line)["event"] for line in told(tell, level=level)) == written


def test_a_bound_log_has_its_fields_in_each_line_and_the_first_one_has_not() -> None:
    def tell(log: Log) -> None:
        log.bind(service="shop/cart").info("a")
        log.info("b")

    assert ["service" in json.loads(line) for line in told(tell)] == [True, False]


SECRETS = {
    "field": {"token": "abc"},
    "header": {"error": "sent Authorization: Bearer abcDEF123456.x"},
    "account": {"error": "got eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlIn0.c2ln"},
    "key": {"error": "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----"},
    "address": {"error": "no connection to http://user:hunter2@proxy:3128"},
    "long": {"error": "x" * (MAX_FIELD_LENGTH - 5) + "Bearer abcDEF123456.x"},
}
FORBIDDEN = ("abc", "eyJ", "MIIE", "hunter2", "user:")


@pytest.mark.parametrize("form", LogFormat)
@pytest.mark.parametrize("fields", SECRETS.values(), ids=SECRETS)
def test_what_looks_like_a_secret_is_masked(fields: dict[str, str], form: LogFormat) -> None:
    (line,) = told(lambda log: log.error("failed", **fields), form=form)
    assert [word for word in FORBIDDEN if word in line] == []
    assert "masked" in line or "long" in fields or "..." in line


@pytest.mark.parametrize("text", ["basic rules", "the token has expired", "http://proxy:3128/a@b", "bearer of news"])
def test_plain_sentences_stay_as_they_are(text: str) -> None:
    (line,) = told(lambda log: log.error("failed", error=text))
    assert json.loads(line)["error"] == text


def test_a_long_field_is_cut() -> None:
    (line,) = told(lambda log: log.error("failed", error="x" * 5_000))
    assert json.loads(line)["error"] == "x" * MAX_FIELD_LENGTH + "..."


def test_a_line_that_repeats_is_left_out_and_counted_for_its_service_alone() -> None:
    now, stream = 0.0, io.BytesIO()
    log = new_log(stream=stream, repeats=RepeatFilter(burst=2, period=60), clock=lambda: now)
    for number in range(5):
        log.warning("slices not written", service="shop/cart", reason="Forbidden", tries=number)
    log.warning("slices not written", service="shop/mail", reason="Forbidden", tries=0)
    now = 60
    log.warning("slices not written", service="shop/cart", reason="Forbidden", tries=5)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(line["service"], line["tries"], line.get("left_out")) for line in lines] == [
        ("shop/cart", 0, None),
        ("shop/cart", 1, None),
        ("shop/mail", 0, None),
        ("shop/cart", 5, 3),
    ]


def test_what_libraries_log_becomes_a_line_of_ours() -> None:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    stream = io.BytesIO()
    try:
        redirect_logging(new_log(stream=stream))
        logging.getLogger("aiohttp.server").info("not told")
        try:
            raise ValueError("Bearer abcDEF123456.x")
        except ValueError:
            logging.getLogger("aiohttp.server").exception("Error handling %s", "a request")
    finally:
        root.handlers[:] = before
        root.setLevel(level)
    (line,) = map(json.loads, stream.getvalue().splitlines())
    del line["time"]
    assert line == {
        "level": "error",
        "event": "a library logged a message",
        "reason": "aiohttp.server",
        "message": "Error handling a request",
        "error": "ValueError: (masked)",
    }


def test_a_silent_log_can_be_told_anything() -> None:
    log: Log = SilentLog()
    log.bind(service="shop/cart").error("failed", error="x")
    log.debug("a")
