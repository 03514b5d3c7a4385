"""The labels of slices; hints and slice groups in them are those decided, by `tests.properties.test_round_trip`."""

import pytest
from tests.builders.structs import a_service, nodes_in
from tests.clusters import Cluster

from zoneward.kube import names
from zoneward.routing.configuration import Configuration
from zoneward.slices.desired import slice_labels

OURS = {"kubernetes.io/service-name": "cart", "endpointslice.kubernetes.io/managed-by": "us"}


@pytest.mark.parametrize(("cluster_ip", "headless"), [("None", True), ("", False), (None, False), ("10.96.0.1", False)])
def test_a_headless_service_marks_its_slices(cluster_ip: str | None, headless: bool) -> None:
    service = a_service(cluster_ip=cluster_ip)
    assert slice_labels(service, manager="us") == {**OURS, **({names.HEADLESS_LABEL: ""} if headless else {})}


@pytest.mark.parametrize("cluster_ip", ["None", "", None])
def test_compat_upstream_takes_a_service_without_an_address_for_headless(cluster_ip: str | None) -> None:
    cluster = Cluster(
        service=a_service(cluster_ip=cluster_ip), nodes=nodes_in({"a": 1}), configuration=Configuration().as_upstream()
    )
    (slice_,) = cluster.plan().families[0].changes.create
    assert names.HEADLESS_LABEL in (slice_.metadata.labels or {})
