"""What is tried again, and when: the whole table, and the spread of pauses."""

import pytest

from zoneward.client.api_errors import (
    AnswerTooLarge,
    CallFailed,
    ListTooLarge,
    NoCredentials,
    SilentConnection,
    TimedOut,
    TlsProblem,
    UnexpectedResponse,
    Unreachable,
    api_error,
)
from zoneward.client.retries import RetryPolicy
from zoneward.kube.input_error import InputError

REPEATED_ALWAYS: list[CallFailed] = [api_error(429, b""), Unreachable("", sent=False)]
REPEATED_IF_HARMLESS: list[CallFailed] = [
    Unreachable("", sent=True),
    *(api_error(status, b"") for status in (500, 502, 503, 504)),
]
NEVER_REPEATED: list[CallFailed] = [
    *(api_error(status, b"") for status in (301, 400, 401, 403, 404, 405, 409, 410, 422, 501, 505)),
    AnswerTooLarge(""),
    UnexpectedResponse(""),
    ListTooLarge(""),
    NoCredentials(InputError("f")),
    SilentConnection(""),
    TimedOut("", sent=True),
    TimedOut("", sent=False),
    TlsProblem("", sent=True),
    TlsProblem("", sent=False),
]


def kinds(kind: type[CallFailed]) -> set[type[CallFailed]]:
    return {kind}.union(*(kinds(each) for each in kind.__subclasses__() if each.__module__ == kind.__module__))


def test_the_table_has_every_kind_of_failure() -> None:
    listed = {type(error) for error in (*REPEATED_ALWAYS, *REPEATED_IF_HARMLESS, *NEVER_REPEATED)}
    assert kinds(CallFailed) - listed == {CallFailed}


@pytest.mark.parametrize("is_repeatable", [True, False])
def test_what_may_not_have_been_done_is_only_tried_again_where_that_is_harmless(is_repeatable: bool) -> None:
    for errors, expected in (
        (REPEATED_ALWAYS, True),
        (REPEATED_IF_HARMLESS, is_repeatable),
        (NEVER_REPEATED, False),
    ):
        for error in errors:
            pause = RetryPolicy().pause(error, failed=1, is_repeatable=is_repeatable, chance=0.5)
            assert (pause is not None) == expected, repr(error)


def test_pauses_double_up_to_the_longest_and_are_spread_over_their_second_half() -> None:
    retries = RetryPolicy(attempts=7, first=1.0, longest=10.0)
    error = Unreachable("", sent=False)
    for chance, expected in ((0.0, [0.5, 1, 2, 4, 5, 5, None]), (1.0, [1, 2, 4, 8, 10, 10, None])):
        pauses = [retries.pause(error, failed=failed, is_repeatable=True, chance=chance) for failed in range(1, 8)]
        assert pauses == expected


def test_nobody_comes_back_before_the_server_wants_it_and_not_all_at_once() -> None:
    error = api_error(429, b"", retry_after=30.0)
    pauses = [RetryPolicy().pause(error, failed=1, is_repeatable=False, chance=chance) for chance in (0.0, 1.0)]
    assert pauses == [30.0, 30.25]
