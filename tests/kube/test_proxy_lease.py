"""What a proxy writes into its Lease is what a controller reads from it."""

from dataclasses import replace

import pytest
from msgspec.structs import replace as with_

from zoneward.kube.objects import Lease, OwnerReference
from zoneward.kube.proxy_lease import (
    ProgrammedReport,
    ProxyStatus,
    build_proxy_lease,
    parse_proxy_lease,
    proxy_lease_name,
)

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
