"""Leases: what a proxy writes is what a controller reads, and whether a controller runs."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace as with_

from zoneward.kube import names
from zoneward.kube.leases import (
    CONTROLLER_LEASE,
    ProgrammedReport,
    ProxyStatus,
    build_proxy_lease,
    is_held,
    is_led,
    parse_proxy_lease,
    proxy_lease_name,
    without_expired_holder,
)
from zoneward.kube.objects import Lease, OwnerReference
from zoneward.kube.workload_objects import AnnotatedMeta, LeaseSpec
from zoneward.kube.workload_objects import Lease as ControllerLease

SOME = ProgrammedReport(1000, 2000, (("shop", "cart"), ("shop", "wishlist")))


def a_lease(node: str = "n1", programmed: ProgrammedReport = SOME, proxy_name: str = "") -> Lease:
    renewed = "2026-01-01T12:00:00.000000Z"
    return build_proxy_lease(
        node, programmed, namespace="kube-system", proxy_name=proxy_name, renewed=renewed, owner=None
    )


@pytest.mark.parametrize("programmed", [SOME, replace(SOME, excluded=())], ids=["all but some", "all"])
@pytest.mark.parametrize("proxy_name", ["", "edge"])
def test_written_report_round_trips(programmed: ProgrammedReport, proxy_name: str) -> None:
    assert parse_proxy_lease(a_lease("n1", programmed, proxy_name)) == ProxyStatus("n1", proxy_name, programmed)


def test_lease_is_owned_by_its_node() -> None:
    owner = OwnerReference(api_version="v1", kind="Node", name="n1", uid="u-1")
    lease = build_proxy_lease("n1", SOME, namespace="kube-system", proxy_name="", renewed="", owner=owner)
    assert lease.metadata.owner_references == (owner,)
    assert a_lease().metadata.owner_references is None


def test_lease_without_versions_reports_nothing() -> None:
    lease = a_lease()
    for annotations in (None, {}, {"zoneward.dev/programmed-services": "12"}, {"zoneward.dev/programmed-slices": "x"}):
        bare = with_(lease, metadata=with_(lease.metadata, annotations=annotations))
        assert parse_proxy_lease(bare) == ProxyStatus("n1", "", None)


def test_names_are_valid_and_no_two_proxies_share_one() -> None:
    assert proxy_lease_name("n1") == "zoneward-proxy-n1"
    assert proxy_lease_name("n1", "edge").startswith("zoneward-proxy.n1-")
    long = "a" * 240 + ".example.org"
    statuses = [
        proxy_lease_name(node, name) for node in ("n1", "n2", long, long[:-1] + "x") for name in ("", "edge", "other")
    ]
    assert len(set(statuses)) == len(statuses)
    assert max(map(len, statuses)) <= 253
    # A Node may be called like another one with a hash.
    own_hash = proxy_lease_name("n1", "edge").removeprefix("zoneward-proxy.")
    assert proxy_lease_name(own_hash) != proxy_lease_name("n1", "edge")
    # Cut where a dot would be the last: no part of a name may end with one.
    assert ".-" not in proxy_lease_name("b" * 220 + "." + "c" * 30)


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def controller_lease(
    seconds: float = 0,
    *,
    name: str = CONTROLLER_LEASE,
    holder: str | None = "a",
    duration: int | None = 15,
    mode: str | None = None,
) -> ControllerLease:
    """A Lease that was renewed ``seconds`` before noon."""
    renewed = (NOON - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = LeaseSpec(holder_identity=holder, lease_duration_seconds=duration, renew_time=renewed)
    annotations = None if mode is None else {names.MODE_ANNOTATION: mode}
    return ControllerLease(
        metadata=AnnotatedMeta(name=name, namespace="zoneward-system", annotations=annotations), spec=spec
    )


@pytest.mark.parametrize(
    ("lease", "expected"),
    [
        (controller_lease(10), True),
        (controller_lease(74), True),
        (controller_lease(76), False),
        (controller_lease(76, duration=60), True),
        (controller_lease(70, duration=None), True),
        (controller_lease(-3600), True),
        (controller_lease(0, holder=""), False),
        (controller_lease(0, holder=None), False),
        (ControllerLease(spec=LeaseSpec(holder_identity="a")), False),
        (ControllerLease(spec=LeaseSpec(holder_identity="a", renew_time="yesterday")), False),
        (ControllerLease(spec=LeaseSpec(holder_identity="a", renew_time="0001-01-01T00:00:00+14:00")), False),
    ],
)
def test_a_lease_is_held_while_its_holder_renews_it(lease: ControllerLease, expected: bool) -> None:
    assert is_held(lease, now=NOON) is expected
    assert is_held(without_expired_holder(lease, now=NOON), now=NOON) is expected
    assert is_led([without_expired_holder(lease, now=NOON)]) is (expected and lease.metadata.name == CONTROLLER_LEASE)


def test_newest_renewal_is_the_time_of_a_file() -> None:
    kubelet = controller_lease(0, name="node-a")
    assert is_led([controller_lease(20), kubelet])
    assert not is_led([controller_lease(600), kubelet])
    assert is_led([controller_lease(600)]), "nothing else says what time it was"
    assert not is_led([kubelet])
    assert is_led([controller_lease(5, name="other"), kubelet], name="other")
    assert not is_led([])


def test_an_overlay_updates_no_slices() -> None:
    assert not is_led([controller_lease(mode="overlay")])
    assert is_led([controller_lease(mode="overlay"), controller_lease(mode="only-marked")])
    assert is_held(controller_lease(mode="overlay"), now=NOON)
