"""The section ``controller`` of the configuration."""

import pytest

from zoneward.controller.controller_configuration import ControllerConfiguration, LeaderElection, Mode
from zoneward.daemon.log import LogFormat
from zoneward.kube.input_error import ConfigurationError
from zoneward.kube.settings import read_settings


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
    assert read_settings(section, ControllerConfiguration) == ControllerConfiguration(
        mode=Mode.TAKE_OVER,
        keep_built_in_label=True,
        batch_period=0.5,
        concurrent_syncs=8,
        leader_election=LeaderElection(
            leader_elect=False,
            lease_duration=60.0,
            renew_deadline=40.0,
            retry_period=5.0,
            lease_namespace="zoneward",
            lease_name="other",
        ),
        listen="[::1]:9",
        debug_for_all=True,
        predictions=True,
        log_format=LogFormat.TEXT,
    )


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ({"mode": "all"}, ".mode: expected overlay or only-marked or take-over, got 'all'"),
        (
            {"listen": 10271},
            ".listen: expected [HOST]:PORT (127.0.0.1:10271",
        ),
        ({"endpointUpdatesBatchPeriod": "2h"}, ".endpointUpdatesBatchPeriod: expected a duration of at most 1h, got"),
        ({"concurrentServiceEndpointSyncs": 51}, ".concurrentServiceEndpointSyncs: expected a whole number from 1 to"),
        (
            {"mode": "only-marked", "keepBuiltInLabel": True},
            ".keepBuiltInLabel: expected the mode take-over, got only-marked",
        ),
        (
            {"leaderElection": {"leaseDuration": "5s"}},
            ".leaderElection.leaseDuration: expected more than renewDeadline (10 s), got 5 s",
        ),
    ],
)
def test_a_wrong_value_is_refused_with_its_field(section: object, expected: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        read_settings(section, ControllerConfiguration, within="controller")
    assert str(raised.value).startswith(f"controller{expected}")
