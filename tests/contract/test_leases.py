"""Leases: how those who elect a leader, and kubelets, use them."""

import pytest
from tests.builders.objects import a_lease, with_field
from tests.contract.api import MERGE_PATCH, Api, Object, collection_of, path_of


def a_held_lease(namespace: str) -> Object:
    spec = {
        "holderIdentity": "first",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-01T00:00:00.000000Z",
        "renewTime": "2026-01-01T00:00:00.000000Z",
        "leaseTransitions": 0,
    }
    return a_lease("leader", namespace=namespace) | {"spec": spec}


def test_a_held_lease_is_kept_as_it_is(api: Api, namespace: str) -> None:
    lease = a_held_lease(namespace)
    assert api.create(lease)["spec"] == lease["spec"]


def test_a_leader_renews(api: Api, namespace: str) -> None:
    lease = api.create(a_held_lease(namespace))
    for second in range(1, 4):
        spec = lease["spec"] | {"renewTime": f"2026-01-01T00:00:0{second}.123456Z"}
        renewed = api.replace(lease | {"spec": spec})
        assert renewed["spec"] == spec
        assert int(renewed["metadata"]["resourceVersion"]) > int(lease["metadata"]["resourceVersion"])
        lease = renewed


def test_of_two_who_want_to_lead_one_does(api: Api, namespace: str) -> None:
    seen = api.create(a_held_lease(namespace))
    answers = [
        api.send("PUT", path_of(seen), seen | {"spec": seen["spec"] | {"holderIdentity": name, "leaseTransitions": 1}})
        for name in ("second", "third")
    ]
    assert [answer.code for answer in answers] == [200, 409]
    assert api.read(seen)["spec"]["holderIdentity"] == "second"


def test_a_leader_lets_go(api: Api, namespace: str) -> None:
    lease = api.create(a_held_lease(namespace))
    spec = lease["spec"] | {"holderIdentity": "", "leaseDurationSeconds": 1}
    assert api.replace(lease | {"spec": spec})["spec"] == spec


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


def test_a_renewal_is_one_event(api: Api, namespace: str) -> None:
    lease = api.create(a_held_lease(namespace))
    query = {"resourceVersion": lease["metadata"]["resourceVersion"], "fieldSelector": "metadata.name=leader"}
    with api.watch(collection_of(lease), query) as watch:
        renewed = api.replace(with_field(lease, "spec.renewTime", "2026-01-01T00:00:01.000000Z"))
        assert watch.next() == {"type": "MODIFIED", "object": renewed}


def test_the_leases_of_nodes_have_their_namespace(api: Api) -> None:
    assert api.get("/api/v1/namespaces/kube-node-lease")["status"]["phase"] == "Active"
