"""NOW in `plan` equals where real kube-proxies send connections, and detecting the proxies needs the optional role.

Each of three zones has a node on one wire, with a kube-proxy. The slices are the built-in controller's.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Final

import pytest
import yaml
from e2e.chances import check_spread
from e2e.control_plane import SLICE_CONTROLLERS, ControlPlane
from e2e.controllers import command_json, decisions
from e2e.kube_proxy import KubeProxy
from e2e.nodes import Bed, Namespace
from e2e.pods import LABELS
from tests.builders.objects import a_namespace, a_node, a_pod, a_service
from tests.cli.running import SAMPLE
from tests.contract.api import MERGE_PATCH, Object
from tests.deploy.manifests import PROXY_MODES, ROOT

NAMESPACE: Final = "shop"
ZONES: Final = "abc"
CPU: Final = {"a": "2", "b": "6", "c": "4"}
PODS: Final = {"a": 1, "b": 2, "c": 0}
WISHES: Final[dict[str, Object]] = {"anywhere": {}, "same-zone": {"distribution": "PreferSameZone"}}
BESIDE, INSTEAD = PROXY_MODES
ROLES: Final = {
    name: yaml.safe_load((ROOT / "examples" / f"{name}.yaml").read_text())["rules"]
    for name in ("cluster-role", "cluster-role-proxies")
}
Shares = dict[str, float]
"""By address, the share of a node's connections."""


def address_of(zone: str, index: int) -> str:
    return f"10.{ZONES.index(zone) + 1}.0.{index + 1}"


@dataclass(frozen=True, slots=True)
class Cluster:
    """``clients`` are Pods to ask from, by zone, ``services`` cluster addresses by name."""

    plane: ControlPlane
    services: Mapping[str, str]
    clients: Mapping[str, Namespace]
    proxies: Mapping[str, KubeProxy]

    def decision(self, service: str, *flags: str) -> Object:
        (only,) = decisions(self.plane, "-n", NAMESPACE, service, *flags)
        return only

    def routed(self, zone: str, service: str) -> Shares:
        flags = ("-n", NAMESPACE, "--node", f"node-{zone}", "--as-is", service)
        document = command_json(self.plane.kubeconfig(), "route", *flags)
        assert document["proxy"] == "kube-proxy 1.37"
        chosen = [port.rpartition(":")[0] for port in document["ports"][0]["cluster"]]
        return {endpoint: 1 / len(chosen) for endpoint in chosen}

    def serves(self, zone: str, service: str, shares: Shares) -> bool:
        selected = self.proxies[zone].endpoints(self.services[service], 80)
        return {endpoint.rpartition(":")[0] for endpoint in selected} == shares.keys()


def kube_proxy_manifest() -> str:
    """The DaemonSet of the sample cluster, as kubeadm makes it."""
    documents = yaml.load_all(SAMPLE.read_text(), yaml.CSafeLoader)
    return yaml.safe_dump(next(document for document in documents if document["kind"] == "DaemonSet"))


KUBE_PROXY: Final = "kube-system/kube-proxy"


def schedule(plane: ControlPlane, daemon_set: str, *, nodes: int) -> None:
    """Set the status that the DaemonSet controller writes once the Pods are ready on this number of nodes."""
    namespace, name = daemon_set.split("/")
    status = {
        "currentNumberScheduled": nodes,
        "desiredNumberScheduled": nodes,
        "numberMisscheduled": 0,
        "numberReady": nodes,
    }
    path = f"/apis/apps/v1/namespaces/{namespace}/daemonsets/{name}/status"
    plane.api().request("PATCH", path, {"status": status}, content_type=MERGE_PATCH)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with ExitStack() as running:
        users = ("reader", "blind")
        plane = running.enter_context(ControlPlane(users=users, controllers=SLICE_CONTROLLERS))
        bed, api = running.enter_context(Bed()), plane.api()
        nodes = {zone: bed.node(f"node-{zone}", pods=[f"10.{at}.0.0/16"]) for at, zone in enumerate(ZONES, start=1)}
        linux = {"kubernetes.io/os": "linux"}
        known = (
            a_node(zone_node.name, zone=zone, cpu=CPU[zone], address=zone_node.addresses[0], labels=linux)
            for zone, zone_node in nodes.items()
        )
        pods = [
            a_pod(f"{zone}-{at}", namespace=NAMESPACE, node=f"node-{zone}", ips=[address_of(zone, at)], labels=LABELS)
            for zone, count in PODS.items()
            for at in range(count)
        ]
        api.create_all([a_namespace(NAMESPACE), *known, *pods])
        created = [api.create(a_service(name, namespace=NAMESPACE, selector=LABELS, **wish))
                   for name, wish in WISHES.items()]  # fmt: skip
        (plane.folder / "kube-proxy.yaml").write_text(kube_proxy_manifest())
        plane.kubectl("apply", "-f", str(plane.folder / "kube-proxy.yaml"))
        schedule(plane, KUBE_PROXY, nodes=len(nodes))
        for user, rules in (("reader", [*ROLES["cluster-role"], *ROLES["cluster-role-proxies"]]),
                            ("blind", ROLES["cluster-role"])):  # fmt: skip
            plane.allow(user, rules, until="/api/v1/services")
        proxies = {zone: KubeProxy(plane, node=node.name, network=node) for zone, node in nodes.items()}
        yield Cluster(
            plane,
            services={zone_node["metadata"]["name"]: zone_node["spec"]["clusterIP"] for zone_node in created},
            clients={zone: node.pod(f"10.{at}.250.1") for at, (zone, node) in enumerate(nodes.items(), start=1)},
            proxies={zone: running.enter_context(proxy) for zone, proxy in proxies.items()},
        )


@pytest.mark.parametrize("service", WISHES)
def test_now_equals_where_connections_go(cluster: Cluster, service: str) -> None:
    def is_listed() -> bool:
        return len(cluster.routed("b", service)) == (2 if service == "same-zone" else 3)

    cluster.plane.wait_until(is_listed, what="its slices")
    now = cluster.decision(service)["now"]
    demand = {zone: values_["demand"] for zone, values_ in cluster.decision(service)["zones"].items()}
    load: Counter[str] = Counter()
    in_zone = 0.0
    for zone, client in cluster.clients.items():
        shares = cluster.routed(zone, service)
        cluster.plane.wait_until(partial(cluster.serves, zone, service, shares), what=f"the proxy of zone {zone}")
        check_spread(client, cluster.services[service], 80, shares=shares)
        assert now["zones"][zone]["consumed"] == len(shares)
        for address, share in shares.items():
            load[address] += demand[zone] * share
            in_zone += demand[zone] * share * (address in {address_of(zone, at) for at in range(PODS[zone])})
    assert now["proxies"] == {"kube-proxy 1.37": 3}
    assert now["inZoneTraffic"] == pytest.approx(in_zone, abs=1e-4)
    assert now["maxOverload"] == pytest.approx(max(load.values()) * len(load) - 1, abs=1e-4)
    assert (now["inZoneTraffic"] > 0.5) is (service == "same-zone")


def test_proxy_detection_needs_the_optional_role(cluster: Cluster) -> None:
    seen = cluster.plane.zoneward("plan", "-n", NAMESPACE, user="reader")
    assert "Proxies: kube-proxy 1.37" in seen.stdout
    assert seen.stderr == ""
    blind = cluster.plane.zoneward("plan", "-n", NAMESPACE, user="blind")
    assert "DaemonSets and ConfigMaps of proxies cannot be read (no permission)" in blind.stderr
    assert "cannot detect the proxy on the nodes; assuming kube-proxy" in blind.stderr
