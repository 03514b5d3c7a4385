"""What a new object has although nobody said so."""

import pytest
from tests.builders.objects import (
    ZONE,
    a_bare_node,
    a_bare_pod,
    a_core_event,
    a_lease,
    a_namespace,
    a_node,
    a_service,
    a_slice,
    an_event,
    with_field,
)
from tests.contract.api import MERGE_PATCH, Api, Object, collection_of


def created(api: Api, thing: Object) -> Object:
    """Without its metadata."""
    answer = api.request("POST", collection_of(thing), thing)
    return {name: value for name, value in answer.items() if name not in {"kind", "apiVersion", "metadata"}}


def test_a_service_gets_an_address_and_its_type(api: Api, namespace: str) -> None:
    service = created(api, a_service("cart", namespace=namespace))
    address = service["spec"].pop("clusterIP")
    assert service == {
        "spec": {
            "ports": [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": "http"}],
            "clusterIPs": [address],
            "type": "ClusterIP",
            "sessionAffinity": "None",
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster",
        },
        "status": {"loadBalancer": {}},
    }


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("spec.ports", [{"port": 80}], {"ports": [{"protocol": "TCP", "port": 80, "targetPort": 80}]}),
        (
            "spec.ports",
            [{"port": 80, "targetPort": 0}],
            {"ports": [{"protocol": "TCP", "port": 80, "targetPort": 80}]},
        ),
        (
            "spec.sessionAffinity",
            "ClientIP",
            {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}},
        ),
        ("spec.type", "NodePort", {"type": "NodePort", "externalTrafficPolicy": "Cluster"}),
        (
            "spec.type",
            "LoadBalancer",
            {"type": "LoadBalancer", "externalTrafficPolicy": "Cluster", "allocateLoadBalancerNodePorts": True},
        ),
    ],
)
def test_a_services_defaults_depend_on_what_it_says(
    api: Api, namespace: str, field: str, value: object, expected: Object
) -> None:
    spec = created(api, with_field(a_service("cart", namespace=namespace), field, value))["spec"]
    assert spec | expected == spec


def test_a_pod_takes_over_its_nodes_zone(api: Api, namespace: str) -> None:
    node = f"{namespace}-node"
    api.create(a_node(node, zone="b"))
    pod = with_field(a_bare_pod("pod", namespace=namespace, labels={"app": "cart"}), "spec.nodeName", node)
    assert api.create(pod)["metadata"]["labels"] == {"app": "cart", ZONE: "b"}


def test_a_node_is_not_ready_at_first(api: Api, namespace: str) -> None:
    node = created(api, a_bare_node(f"{namespace}-node"))
    assert node["spec"] == {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}
    assert "conditions" not in node["status"]


def test_a_slice_says_that_it_is_about_tcp(api: Api, namespace: str) -> None:
    slice_ = a_slice("slice", service="cart", addresses=["10.0.0.1"], namespace=namespace)
    slice_["ports"] = [{"port": 80}]
    assert created(api, slice_)["ports"] == [{"name": "", "protocol": "TCP", "port": 80}]


@pytest.mark.parametrize("ports", [None, []])
def test_no_ports_of_a_slice_are_null(api: Api, namespace: str, ports: object) -> None:
    slice_ = a_slice("slice", service="cart", addresses=["10.0.0.1"], namespace=namespace)
    slice_["ports"] = ports
    assert created(api, slice_)["ports"] is None


def test_an_endpoints_conditions_stay_unknown(api: Api, namespace: str) -> None:
    slice_ = a_slice("slice", service="cart", addresses=["10.0.0.1"], namespace=namespace)
    slice_["endpoints"] = [{"addresses": ["10.0.0.1"]}]
    assert created(api, slice_)["endpoints"] == [{"addresses": ["10.0.0.1"], "conditions": {}}]


def test_an_event_shows_the_times_that_it_lacks(api: Api, namespace: str) -> None:
    assert created(api, a_core_event("old", namespace=namespace)) == {
        "involvedObject": {"kind": "Service", "namespace": namespace, "name": "cart", "apiVersion": "v1"},
        "reason": "Tested",
        "message": "it was tested",
        "source": {"component": "tests"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-02T00:00:00Z",
        "count": 3,
        "type": "Normal",
        "eventTime": None,
        "reportingComponent": "",
        "reportingInstance": "",
    }
    new = created(api, an_event("new", namespace=namespace))
    assert (new["deprecatedSource"], new["deprecatedFirstTimestamp"], new["deprecatedLastTimestamp"]) == (
        {},
        None,
        None,
    )


def test_a_namespace_is_named_by_a_label_and_kept_by_a_finalizer(api: Api, namespace: str) -> None:
    more = api.create(a_namespace(f"{namespace}-more"))
    assert more["metadata"]["labels"] == {"kubernetes.io/metadata.name": f"{namespace}-more"}
    assert (more["spec"], more["status"]) == ({"finalizers": ["kubernetes"]}, {"phase": "Active"})


def test_the_label_with_a_namespaces_name_cannot_be_changed(api: Api, namespace: str) -> None:
    label = "kubernetes.io/metadata.name"
    for value in ("other", None):
        changed = api.patch(a_namespace(namespace), {"metadata": {"labels": {label: value}}})
        assert changed["metadata"]["labels"] == {label: namespace}


def test_empty_labels_and_annotations_are_none(api: Api, namespace: str) -> None:
    lease = a_lease("lease", namespace=namespace)
    lease["metadata"] |= {"labels": {}, "annotations": {}, "finalizers": [], "ownerReferences": []}
    metadata = api.create(lease)["metadata"]
    assert not {"labels", "annotations", "finalizers", "ownerReferences"} & metadata.keys()


# --- two fields that say the same -------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [{"podIP": "10.1.0.9"}, {"podIP": "10.1.0.9", "podIPs": [{"ip": "10.1.0.9"}]}])
def test_the_addresses_of_a_pod_begin_with_its_address(api: Api, namespace: str, given: Object) -> None:
    pod = api.create(a_bare_pod("pod", namespace=namespace))
    # Also where it had another: the single field is the one that counts.
    for address in ("10.1.0.8", "10.1.0.9"):
        status = given if address == "10.1.0.9" else {"podIP": address}
        pod = api.patch(pod, {"status": status}, subresource="status", content_type=MERGE_PATCH)
    assert (pod["status"]["podIP"], pod["status"]["podIPs"]) == ("10.1.0.9", [{"ip": "10.1.0.9"}])
