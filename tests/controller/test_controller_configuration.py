"""The section ``controller`` of the configuration; tests/docs has its keys and defaults."""

import pytest

from zoneward.controller.controller_configuration import ControllerConfiguration
from zoneward.kube.input_error import ConfigurationError
from zoneward.kube.settings import read_settings


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
