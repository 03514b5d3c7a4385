"""Leases: how those who elect a leader, and kubelets, use them."""

import pytest
from tests.builders.objects import a_lease, with_field
from tests.contract.api import MERGE_PATCH, Api, Object, collection_of


def a_held_lease(namespace: str) -> Object:
    spec = {
        "holderIdentity": "first",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-01T00:00:00.000000Z",
        "renewTime": "2026-01-01T00:00:00.000000Z",
        "leaseTransitions": 0,
    }
    return a_lease("leader", namespace=namespace) | {"spec": spec}


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:00.000000Z"),
        ("2026-01-01T00:00:00.123456Z", "2026-01-01T00:00:00.123456Z"),
        ("2026-01-01T02:00:00.000000+02:00", "2026-01-01T00:00:00.000000Z"),
    ],
)
def test_times_have_six_digits_and_are_shown_in_utc(api: Api, namespace: str, written: str, shown: str) -> None:
    lease = with_field(a_held_lease(namespace), "spec.renewTime", written)
    api.create(lease)
    assert api.read(lease)["spec"]["renewTime"] == shown


@pytest.mark.parametrize(
    "written",
    ["yesterday", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00.123Z", "2026-13-01T00:00:00.000000Z"],
)
def test_other_times_are_refused(api: Api, namespace: str, written: str) -> None:
    lease = with_field(a_held_lease(namespace), "spec.renewTime", written)
    answer = api.send("POST", collection_of(lease), lease)
    assert answer.refusal[:2] == (400, "BadRequest")


def test_a_time_can_be_taken_away(api: Api, namespace: str) -> None:
    lease = api.create(a_held_lease(namespace))
    patched = api.patch(lease, {"spec": {"renewTime": None}}, content_type=MERGE_PATCH)
    assert "renewTime" not in patched["spec"]
