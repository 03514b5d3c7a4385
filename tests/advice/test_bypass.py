from collections.abc import Iterable

import pytest
from tests.advice.inputs import input_of
from tests.builders.structs import a_pod, a_service, nodes_in
from tests.clusters import Cluster

from zoneward.advice.bypass import bypasses
from zoneward.kube.objects import Pod, Service
from zoneward.snapshots.anonymizer import anonymized
from zoneward.snapshots.cluster_snapshot import Snapshot


def found(service: Service, pods: Iterable[Pod] = ()) -> list[str]:
    """In a snapshot of these, and in an anonymized one."""

    def in_snapshot(snapshot: Snapshot) -> list[str]:
        (service,) = snapshot.services
        cluster = Cluster(service=service, nodes=snapshot.nodes, pods=snapshot.pods)
        return [bypass.what for bypass in bypasses(input_of(cluster))]

    snapshot = Snapshot(services=(service,), nodes=nodes_in({"a": 1, "b": 1}), pods=tuple(pods))
    bypassing = in_snapshot(snapshot)
    assert in_snapshot(anonymized(snapshot)) == bypassing
    return bypassing


@pytest.mark.parametrize(
    ("service", "what"),
    [
        (a_service(cluster_ip="None"), ["headless"]),
        (a_service(type_="ExternalName"), ["external-name"]),
        (a_service(), ["ingress-not-seen"]),
        (a_service(internal="Local"), ["internal-traffic-policy", "ingress-not-seen"]),
        (a_service(external="Local", node_port=30080), ["external-traffic-policy", "ingress-not-seen"]),
        (a_service(node_port=30080), ["external-traffic", "ingress-not-seen"]),
        (a_service(session_affinity="ClientIP"), ["session-affinity", "ingress-not-seen"]),
        (a_service(publish_not_ready=True), ["not-ready", "ingress-not-seen"]),
        (
            a_service(labels={"service.kubernetes.io/service-proxy-name": "x"}),
            ["service-proxy-name", "ingress-not-seen"],
        ),
        (a_service(labels={"istio.io/use-waypoint": "w"}), ["istio", "ingress-not-seen"]),
        (a_service(annotations={"cloud.google.com/neg": "{}"}), ["load-balancer", "ingress-not-seen"]),
        # GKE sets it on each Service.
        (a_service(annotations={"cloud.google.com/neg": '{"ingress":true}'}), ["ingress-not-seen"]),
        (
            a_service(annotations={"cloud.google.com/neg": '{"ingress":true}', "cloud.google.com/neg-status": "{}"}),
            ["load-balancer", "ingress-not-seen"],
        ),
        (
            a_service(annotations={"service.beta.kubernetes.io/aws-load-balancer-nlb-target-type": "ip"}),
            ["load-balancer", "ingress-not-seen"],
        ),
    ],
)
def test_service_fields_bypass_hints(service: Service, what: list[str]) -> None:
    assert found(service) == what


@pytest.mark.parametrize(
    ("labels", "what"),
    [
        ({"security.istio.io/tlsMode": "istio"}, ["istio"]),
        ({"security.istio.io/tlsMode": "disabled"}, []),
        ({"istio.io/dataplane-mode": "ambient"}, ["istio"]),
        ({"istio.io/dataplane-mode": "none"}, []),
        ({"linkerd.io/control-plane-ns": "linkerd"}, ["linkerd"]),
    ],
)
def test_pod_labels_show_a_mesh(labels: dict[str, str], what: list[str]) -> None:
    pod = a_pod("cart-1", labels={"app": "cart", **labels})
    assert found(a_service(), [pod]) == [*what, "ingress-not-seen"]
