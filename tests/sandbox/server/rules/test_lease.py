"""Rules for Leases: every list of words was read from a v1.36.3 server."""

from typing import Final

from tests.sandbox.server.rules.judging import NAME_PART, SUBDOMAIN, change_refused, created, refused, updated
from zoneward.sandbox.server.rules.lease import LeaseRules

from zoneward.sandbox.server.kinds import Object

RULES: Final = LeaseRules()
METADATA: Final = {"name": "l", "namespace": "ns", "uid": "1", "resourceVersion": "7"}
LEASE: Final[Object] = {"metadata": METADATA, "spec": {"holderIdentity": "", "leaseDurationSeconds": 40}}


def test_a_lease_need_not_say_anything() -> None:
    assert refused(RULES, {"metadata": METADATA, "spec": {}}) == []
    assert refused(RULES, LEASE | {"spec": {"holderIdentity": "", "leaseTransitions": 0}}) == []


def test_durations_are_positive_and_transitions_counted() -> None:
    spec = {"leaseDurationSeconds": 0, "leaseTransitions": -1}
    expected = [
        "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
        "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
    ]
    assert refused(RULES, LEASE | {"spec": spec}) == expected
    assert change_refused(RULES, LEASE, spec=spec) == expected


def test_what_is_behind_a_gate_is_dropped() -> None:
    spec = {"strategy": "foo", "preferredHolder": "x", "holderIdentity": "y"}
    assert created(RULES, LEASE | {"spec": spec})["spec"] == {"holderIdentity": "y"}
    assert updated(RULES, LEASE, spec=spec)["spec"] == {"holderIdentity": "y"}


def test_finalizers_need_no_domain() -> None:
    assert refused(RULES, LEASE | {"metadata": METADATA | {"finalizers": ["kub"]}}) == []
    assert change_refused(RULES, LEASE, metadata={"finalizers": ["kub"]}) == []


def test_metadata_is_judged_before_the_spec() -> None:
    assert refused(RULES, {"metadata": METADATA | {"name": "A"}, "spec": {"leaseDurationSeconds": -3}}) == [
        f'metadata.name: Invalid value: "A": {SUBDOMAIN}',
        "spec.leaseDurationSeconds: Invalid value: -3: must be greater than 0",
    ]
    changes = {"labels": {"_": "a"}, "finalizers": ["_"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert change_refused(RULES, LEASE, metadata=changes, spec={"leaseTransitions": -1}) == [
        f'metadata.labels: Invalid value: "_": {NAME_PART}',
        f'metadata.finalizers: Invalid value: "_": {NAME_PART}',
        'metadata.deletionTimestamp: Invalid value: "2026-01-01T00:00:00Z": field is immutable',
        "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
    ]
