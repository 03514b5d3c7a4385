"""What decoding makes of fields that can say one thing in several ways."""

import msgspec
import pytest

from zoneward.kube.objects import Endpoint, EndpointConditions, Pod, has_address


@pytest.mark.parametrize("conditions", ["", '"conditions": null', '"conditions": {}', '"conditions": {"ready": null}'])
def test_empty_conditions_are_none(conditions: str) -> None:
    assert msgspec.json.decode(f"{{{conditions}}}", type=Endpoint) == Endpoint(conditions=None)
    assert Endpoint(conditions=EndpointConditions()).conditions is None


def test_a_condition_that_is_false_is_set() -> None:
    endpoint = msgspec.json.decode('{"conditions": {"ready": false}}', type=Endpoint)
    assert endpoint.conditions == EndpointConditions(ready=False)


@pytest.mark.parametrize(
    ("status", "has"),
    [
        ("{}", False),
        ('{"podIP": "", "podIPs": []}', False),
        ('{"podIP": "10.0.0.1", "podIPs": null}', True),
        ('{"podIPs": [{"ip": "fd00::1"}]}', True),
    ],
)
def test_a_pod_has_an_address_in_either_field(status: str, has: bool) -> None:
    assert has_address(msgspec.json.decode(f'{{"status": {status}}}', type=Pod)) == has
