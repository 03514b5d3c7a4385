"""Labels of slices: the Service's own, mirrored_labels, and the three of the controller."""

import pytest
from tests.clusters import a_service

from zoneward.kube import names
from zoneward.slices.pack import labels_differ
from zoneward.slices.encode import is_headless, mirrored_labels, slice_labels

OURS = {"kubernetes.io/service-name": "cart", "endpointslice.kubernetes.io/managed-by": "us"}


def test_a_slice_has_the_services_labels_and_says_whose_it_is() -> None:
    service = a_service(labels={"team": "web"})
    assert slice_labels(service, manager="us") == {"team": "web", **OURS}
    assert slice_labels(a_service(), manager="us") == OURS


@pytest.mark.parametrize(("cluster_ip", "headless"), [("None", True), ("", False), (None, False), ("10.96.0.1", False)])
def test_a_headless_service_marks_its_slices(cluster_ip: str | None, headless: bool) -> None:
    service = a_service(cluster_ip=cluster_ip)
    assert is_headless(service) == headless
    assert is_headless(service, upstream=True) == (headless or not cluster_ip), "upstream waits for no address"
    assert slice_labels(service, manager="us") == {**OURS, **({names.HEADLESS_LABEL: ""} if headless else {})}


@pytest.mark.parametrize("label", names.RESERVED_SLICE_LABELS)
def test_a_reserved_label_on_the_service_is_not_mirrored(label: str) -> None:
    service = a_service(labels={label: "theirs", "team": "web"})
    assert slice_labels(service, manager="us") == {"team": "web", **OURS}
    assert mirrored_labels({label: "theirs", "team": "web"}) == {"team": "web"}


def test_mirrored_labels_that_differ_need_a_write() -> None:
    assert labels_differ({"team": "web", **OURS}, {"team": "shop", **OURS})
    assert labels_differ(OURS, {"team": "web", **OURS})
    assert labels_differ({"team": "web", **OURS}, OURS)
    assert labels_differ(None, {"team": "web"})


def test_reserved_labels_alone_need_none() -> None:
    """As upstream: a slice is not rewritten because a Service became headless."""
    assert not labels_differ(None, OURS)
    assert not labels_differ({**OURS, names.HEADLESS_LABEL: ""}, OURS)
