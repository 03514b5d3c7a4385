"""What an operator sets for the controller: the section of the file, durations, addresses, and every refusal."""

import pytest

from zoneward.controller.controller_configuration import ControllerConfiguration, read_controller_configuration
from zoneward.controller.mode import Mode
from zoneward.daemon.configuration_file import ListenAddress, parse_listen_address
from zoneward.daemon.log import LogFormat
from zoneward.kube.durations import parse_duration
from zoneward.kube.input_error import ConfigurationError

SYNCS, PERIOD = "concurrentServiceEndpointSyncs", "endpointUpdatesBatchPeriod"


def test_an_empty_section_is_the_default() -> None:
    for section in (None, {}, {"mode": None, "listen": None}):
        assert read_controller_configuration(section) == ControllerConfiguration()


def test_every_key_is_read() -> None:
    section = {
        "mode": "take-over",
        "keepBuiltInLabel": True,
        "endpointUpdatesBatchPeriod": "500ms",
        "concurrentServiceEndpointSyncs": 8,
        "leaderElection": {
            "leaderElect": False,
            "leaseDuration": "1m",
            "renewDeadline": "40s",
            "retryPeriod": "5s",
            "resourceNamespace": "zoneward",
            "resourceName": "other",
        },
        "listen": "[::1]:9",
        "debugForAll": True,
        "predictions": True,
        "logFormat": "text",
    }
    assert read_controller_configuration(section) == ControllerConfiguration(
        mode=Mode.TAKE_OVER,
        keep_built_in_label=True,
        batch_period=0.5,
        concurrent_syncs=8,
        leader_elect=False,
        lease_duration=60.0,
        renew_deadline=40.0,
        retry_period=5.0,
        lease_namespace="zoneward",
        lease_name="other",
        listen=ListenAddress("::1", 9),
        debug_for_all=True,
        predictions=True,
        log_format=LogFormat.TEXT,
    )


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ([], ": expected a map, got []"),
        ({"leaderElection": 1}, ".leaderElection: expected a map, got 1"),
        ({"mode": "all"}, ".mode: expected take-over or only-marked, got 'all'"),
        ({"mode": []}, ".mode: expected take-over or only-marked, got []"),
        ({"keepBuiltInLabel": 1}, ".keepBuiltInLabel: expected true or false, got 1"),
        (
            {"mode": "only-marked", "keepBuiltInLabel": True},
            (
                ".keepBuiltInLabel: expected the mode take-over, got only-marked,"
                " in which our slices need a label of their own"
            ),
        ),
        ({"listen": 10271}, ".listen: expected [HOST]:PORT, got 10271"),
        ({SYNCS: True}, f".{SYNCS}: expected a whole number, got True"),
        ({SYNCS: 101}, f".{SYNCS}: expected a number from 1 to 50, got 101"),
        ({PERIOD: 5}, f".{PERIOD}: expected a duration (500ms, 15s, 1m30s), got 5"),
        ({PERIOD: "2h"}, f".{PERIOD}: expected at most 1h, got 7200 s"),
        (
            {"leaderElection": {"leaseDuration": "5s"}},
            ".leaderElection.leaseDuration: expected more than renewDeadline (10 s), got 5 s",
        ),
        ({"leaderElection": {"resourceName": ""}}, ".leaderElection.resourceName: expected a name, got ''"),
    ],
)
def test_an_error_is_one_line(section: object, expected: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        read_controller_configuration(section)
    assert str(raised.value) == f"controller{expected}"


def test_an_unknown_key_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match=r"controller\.lease: expected one of mode, .*, got an unknown key"):
        read_controller_configuration({"lease": "a"})


DURATIONS = {"0": 0.0, "0s": 0.0, "500ms": 0.5, "1.5s": 1.5, "1m30s": 90.0, "1h0.5m": 3630.0, ".5s": 0.5}
NO_DURATIONS = ("", "5", "-1s", "+1s", "1 s", "s", "1d", "1s2", "1e3s", "1s" * 200, "٣s", "1.2.3s")
ADDRESSES = {
    ":10271": ListenAddress(None, 10271),
    "127.0.0.1:0": ListenAddress("127.0.0.1", 0),
    "localhost:80": ListenAddress("localhost", 80),
    "[::1]:80": ListenAddress("::1", 80),
}
NO_ADDRESSES = ("", "80", "localhost", "localhost:", "::1:80", "a:65536", "a:-1", "a:٣", "a:b")


def test_durations_and_addresses_are_read_as_go_does() -> None:
    assert {text: parse_duration(text) for text in DURATIONS} == DURATIONS
    assert {text: parse_listen_address(text) for text in ADDRESSES} == ADDRESSES
    assert [str(address) for address in ADDRESSES.values()] == [*ADDRESSES]


def test_durations_and_addresses_that_go_refuses_are_refused() -> None:
    for text in NO_DURATIONS:
        with pytest.raises(ValueError, match="expected a duration"):
            parse_duration(text)
    for text in NO_ADDRESSES:
        with pytest.raises(ValueError, match="expected"):
            parse_listen_address(text)
