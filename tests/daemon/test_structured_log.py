"""One line an event, in order, without secrets, and not the same one for ever."""

import io
import json
import logging
import time
from collections.abc import Callable

import pytest

from zoneward.daemon.log import Log, LogFormat, RepeatFilter
from zoneward.daemon.structured_log import MAX_FIELD_LENGTH, Level, new_log, redirect_logging


def logged(tell: Callable[[Log], None], *, form: LogFormat = LogFormat.JSON, level: Level = Level.INFO) -> list[str]:
    stream = io.BytesIO()
    tell(new_log(form=form, level=level, stream=stream))
    text = stream.getvalue().decode()
    assert not text or text.endswith("\n")
    return text.split("\n")[:-1]


def test_a_line_of_json_has_its_time_level_and_event_first_and_then_what_it_was_told() -> None:
    (line,) = logged(lambda log: log.info("slices written", service="shop/cart", family="IPv4", created=2, reason=None))
    fields = json.loads(line)
    assert list(fields) == ["time", "level", "event", "service", "family", "created", "reason"]
    assert list(fields.values())[1:] == ["info", "slices written", "shop/cart", "IPv4", 2, None]
    assert fields["time"].endswith("Z")


def test_a_line_of_text_can_be_read_and_taken_apart() -> None:
    (line,) = logged(
        lambda log: log.warning("slices not written", service="shop/cart", error='a "b"\nc=d', left=2),
        form=LogFormat.TEXT,
    )
    assert line.partition(" ")[2] == r'WARNING slices not written service=shop/cart error="a \"b\"\nc=d" left=2'


@pytest.mark.parametrize("text", ["a\nb", "c\r\nd\x1b[31m", "a\x9b31m", "a b\x7f", "\u2028"])
def test_nothing_that_is_told_makes_a_second_line_or_steers_a_terminal(text: str) -> None:
    (line,) = logged(lambda log: log.error(text, reason=text), form=LogFormat.TEXT)
    assert line.isprintable()
    (line,) = logged(lambda log: log.error(text, reason=text))
    assert "\x1b" not in line


def test_lines_below_the_level_are_not_written_and_a_bound_log_has_its_fields_in_each_line() -> None:
    def tell(log: Log) -> None:
        log.info("i")
        log.bind(service="shop/cart").warning("w")
        log.error("e")

    lines = [json.loads(line) for line in logged(tell, level=Level.WARNING)]
    assert [(line["event"], "service" in line) for line in lines] == [("w", True), ("e", False)]


SECRETS = {
    "field": {"token": "abc"},
    "header": {"error": "sent Authorization: Bearer abcDEF123456.x"},
    "account": {"error": "got eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlIn0.c2ln"},
    "certificates": {"error": f"got eyJ{'a' * 3_000}.eyJpc3MiOiJrdWJlIn0.c2ln"},
    "key": {"error": "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----"},
    "address": {"error": "no connection to http://user:hunter2@proxy:3128"},
    "long": {"error": "x" * (MAX_FIELD_LENGTH - 5) + "Bearer abcDEF123456.x"},
}
FORBIDDEN = ("abc", "eyJ", "MIIE", "hunter2", "user:")


@pytest.mark.parametrize("form", LogFormat)
@pytest.mark.parametrize("fields", SECRETS.values(), ids=SECRETS)
def test_what_looks_like_a_secret_is_masked(fields: dict[str, str], form: LogFormat) -> None:
    (line,) = logged(lambda log: log.error("failed", **fields), form=form)
    assert [word for word in FORBIDDEN if word in line] == []
    assert "masked" in line or "long" in fields or "..." in line


@pytest.mark.parametrize("text", ["basic rules", "the token has expired", "http://proxy:3128/a@b", "bearer of news"])
def test_plain_sentences_stay_as_they_are(text: str) -> None:
    (line,) = logged(lambda log: log.error("failed", error=text))
    assert json.loads(line)["error"] == text


def test_a_long_message_like_many_beginnings_of_tokens_does_not_take_long() -> None:
    start = time.process_time()
    (line,) = logged(lambda log: log.error("e", error="eyJ" * 30_000))
    assert time.process_time() - start < 2
    assert len(line) < 2 * MAX_FIELD_LENGTH


def test_a_line_that_repeats_is_left_out_and_counted_for_its_service_alone() -> None:
    now, stream = 0.0, io.BytesIO()
    log = new_log(stream=stream, repeats=RepeatFilter(burst=2, period=60), clock=lambda: now)
    for now, service in ((0, "cart"), (0, "cart"), (0, "cart"), (0, "cart"), (0, "mail"), (60, "cart")):
        log.warning("slices not written", service=service, reason="Forbidden", at=now)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(line["service"], line["at"], line.get("left_out")) for line in lines] == [
        ("cart", 0, None),
        ("cart", 0, None),
        ("mail", 0, None),
        ("cart", 60, 2),
    ]


def test_what_libraries_log_becomes_a_line_of_ours() -> None:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    stream = io.BytesIO()
    try:
        redirect_logging(new_log(stream=stream))
        logging.getLogger("aiohttp.server").info("not logged")
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
