"""The clusters of people who run Zoneward for the first time, as ``kubectl get nodes,services,pods,endpointslices -A
-o json`` prints them: no DaemonSets and no Deployments, slices as the built-in controller leaves them. Of the fields
that Zoneward does not read there are a few.

The same call gives the same objects. Numbers are small and even, so that a person can compute every share from the
docstrings.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any, Final

from tests.builders.objects import BUILT_IN_MANAGER, MANAGED_BY, Object, a_node, a_pod, a_service, a_slice, with_field

from zoneward.kube import names
from zoneward.kube.adoption_marks import SELECTOR_ANNOTATION, encode_selector

_SAFE: Final = "bcdfghjklmnpqrstvwxz2456789"
"""What Kubernetes makes up names of."""
_AUTO: Final = {"service.kubernetes.io/topology-mode": "Auto"}


def write_list(objects: Iterable[Object], path: Path) -> Path:
    """The file that ``kubectl get ... -o json > path`` leaves."""
    path.write_text(json.dumps({"apiVersion": "v1", "items": list(objects), "kind": "List", "metadata": {}}))
    return path


def written(make: Callable[[], Iterator[Object]], directory: Path) -> Path:
    """The file of a cluster, with the name of the function that makes it."""
    return write_list(make(), directory / f"{make.__name__}.json")


# --- the clusters -----------------------------------------------------------------------------------------------------


def eks_with_a_thin_zone() -> Iterator[Object]:
    """EKS 1.33: five nodes in us-east-1a, five in us-east-1b and one in us-east-1c, all of one size; 46 Services.

    =====================================  ========  ============  =============================================
    Services                               number    Pods a, b, c  asks for
    =====================================  ========  ============  =============================================
    default/kubernetes                     1         none          nothing; two addresses without a zone
    kube-system: kube-dns, metrics-server  3         1, 1, 0       nothing
    monitoring/node-exporter               1         5, 5, 1       nothing; headless
    logging/log-agent                      1         5, 5, 1       internalTrafficPolicy: Local, a Pod on each node
    logging/log-buffer                     1         1, 1, 1       internalTrafficPolicy: Local
    shop/pay-old                           1         none          nothing; its Deployment is scaled to 0
    shop/plain-01 to -20                   20        1, 1, 1       nothing
    shop/close-01 to -10                   10        1, 1, 1       trafficDistribution: PreferClose
    shop/fitting-1 to -5                   5         5, 5, 1       topology-mode: Auto
    shop/few-1 to -3                       3         1, 1, 1       topology-mode: Auto
    =====================================  ========  ============  =============================================
    """
    cluster = _Cluster(version="v1.33.5-eks-113cf36", node_labels=_eks_labels, node_name=_eks_name)
    cluster.add_nodes({"us-east-1a": 5, "us-east-1b": 5, "us-east-1c": 1})
    cluster.add_kube_proxy("602401143452.dkr.ecr.us-east-1.amazonaws.com/eks/kube-proxy:v1.33.3-minimal-eksbuild.10")
    cluster.run_everywhere("kube-system", "aws-node", container="aws-node", image="amazon-k8s-cni:v1.20.1-eksbuild.3")
    cluster.add_kubernetes(("10.0.12.8", "10.0.140.31"))
    for name in ("kube-dns", "metrics-server", "aws-load-balancer-webhook-service"):
        cluster.add_service("kube-system", name, pods=(1, 1, 0))
    exporters = cluster.run_everywhere("monitoring", "node-exporter", container="node-exporter", port=9100)
    cluster.add_service(
        "monitoring", "node-exporter", pods=exporters, spec={"clusterIP": "None", "clusterIPs": ["None"]}
    )
    local = {"internalTrafficPolicy": "Local"}
    agents = cluster.run_everywhere("logging", "log-agent", container="agent", port=8080)
    cluster.add_service("logging", "log-agent", pods=agents, spec=local)
    cluster.add_service("logging", "log-buffer", pods=(1, 1, 1), spec=local)
    cluster.add_service("shop", "pay-old", pods=(0, 0, 0))
    for index in range(1, 21):
        cluster.add_service("shop", f"plain-{index:02}", pods=(1, 1, 1))
    for index in range(1, 11):
        cluster.add_service(
            "shop", f"close-{index:02}", pods=(1, 1, 1), spec={"trafficDistribution": "PreferClose"}, hinted=True
        )
    for index in range(1, 6):
        cluster.add_service("shop", f"fitting-{index}", pods=(5, 5, 1), annotations=_AUTO, hinted=True)
    for index in range(1, 4):
        cluster.add_service("shop", f"few-{index}", pods=(1, 1, 1), annotations=_AUTO)
    return cluster.objects()


def eks_with_an_overlay(entries: dict[str, str]) -> list[Object]:
    """`eks_with_a_thin_zone` with Zoneward: shop/few-1 is in the overlay with these entries, shop/few-2 is adopted."""
    objects = list(eks_with_a_thin_zone())
    for object_ in objects:
        metadata, labels = object_["metadata"], object_["metadata"].get("labels", {})
        if object_["kind"] == "Service" and metadata["name"] == "few-1":
            metadata["annotations"][names.OVERLAY_MARK] = names.OVERLAY_ENABLED
        if object_["kind"] == "Service" and metadata["name"] == "few-2":
            metadata["annotations"][SELECTOR_ANNOTATION] = encode_selector(object_["spec"].pop("selector"))
        if labels.get("kubernetes.io/service-name") == "few-2" and object_["kind"] == "EndpointSlice":
            labels[names.MANAGED_BY_LABEL] = names.MANAGER
    metadata = {"name": names.OVERLAY_CONFIG_MAP, "namespace": "shop"}
    return [*objects, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": entries}]


def gke_dataplane_v2() -> Iterator[Object]:
    """GKE 1.33 with Dataplane V2: 19 nodes of one size, 7, 6 and 6 in the zones of europe-west4. There is no
    kube-proxy: on each node runs a Pod of the DaemonSet ``anetd``, with Cilium 1.16 in it.

    Eight Services: default/kubernetes, three of kube-system with a Pod in each zone, and four of shop with two Pods in
    each zone, of which two ask for PreferClose.
    """
    cluster = _Cluster(version="v1.33.5-gke.1162000", node_labels=_gke_labels, node_name=_gke_name)
    cluster.add_nodes({"europe-west4-a": 7, "europe-west4-b": 6, "europe-west4-c": 6})
    cluster.run_everywhere(
        "kube-system",
        "anetd",
        container="cilium-agent",
        image="gke.gcr.io/cilium/cilium:v1.16.5-gke.18@sha256:" + _digest("anetd"),
        labels={"k8s-app": "cilium"},
        host_network=True,
    )
    cluster.run_everywhere("kube-system", "gke-metadata-server", container="gke-metadata-server", host_network=True)
    cluster.add_kubernetes(("10.164.0.2",))
    for name in ("kube-dns", "metrics-server", "default-http-backend"):
        cluster.add_service("kube-system", name, pods=(1, 1, 1))
    for name in ("cart", "search"):
        cluster.add_service("shop", name, pods=(2, 2, 2))
    for name in ("checkout", "frontend"):
        cluster.add_service("shop", name, pods=(2, 2, 2), spec={"trafficDistribution": "PreferClose"}, hinted=True)
    return cluster.objects()


def dev_cluster_in_one_zone() -> Iterator[Object]:
    """A development cluster: three nodes of one size, all in eu-central-1a, with kube-proxy 1.33.

    Five Services: default/kubernetes, kube-dns with two Pods, and three of dev with two Pods: ``plain`` asks for
    nothing, ``close`` for PreferClose, ``auto`` for Auto.
    """
    cluster = _Cluster(version="v1.33.5", node_labels=_plain_labels, node_name=_plain_name)
    cluster.add_nodes({"eu-central-1a": 3})
    cluster.add_kube_proxy("registry.k8s.io/kube-proxy:v1.33.5")
    cluster.add_kubernetes(("192.168.10.1",))
    cluster.add_service("kube-system", "kube-dns", pods=(2,))
    cluster.add_service("dev", "plain", pods=(2,))
    cluster.add_service("dev", "close", pods=(2,), spec={"trafficDistribution": "PreferClose"}, hinted=True)
    cluster.add_service("dev", "auto", pods=(2,), annotations=_AUTO)
    return cluster.objects()


def two_thousand_services() -> Iterator[Object]:
    return many_services(2_000)


def many_services(count: int) -> Iterator[Object]:
    """300 nodes of one size, 100 in each zone of eu-west-1, and Services with five Pods in each zone.

    Every other Service asks for PreferClose.
    """
    cluster = _Cluster(version="v1.33.5-eks-113cf36", node_labels=_eks_labels, node_name=_eks_name)
    cluster.add_nodes({"eu-west-1a": 100, "eu-west-1b": 100, "eu-west-1c": 100})
    cluster.add_kube_proxy("602401143452.dkr.ecr.eu-west-1.amazonaws.com/eks/kube-proxy:v1.33.3-minimal-eksbuild.10")
    for index in range(count):
        asks = index % 2 == 1
        cluster.add_service(
            f"team-{index // 50:02}",
            f"service-{index:04}",
            pods=(5, 5, 5),
            spec={"trafficDistribution": "PreferClose"} if asks else None,
            hinted=asks,
        )
    return cluster.objects()


# --- nodes of providers -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Host:
    index: int
    name: str
    zone: str
    address: str


def _eks_name(index: int, address: str) -> str:  # noqa: ARG001 -- all providers alike
    return f"ip-{address.replace('.', '-')}.ec2.internal"


def _eks_labels(zone: str) -> dict[str, str]:
    return {
        "alpha.eksctl.io/nodegroup-name": "general",
        "beta.kubernetes.io/instance-type": "m6i.xlarge",
        "eks.amazonaws.com/capacityType": "ON_DEMAND",
        "eks.amazonaws.com/nodegroup": "general",
        "failure-domain.beta.kubernetes.io/region": zone[:-1],
        "failure-domain.beta.kubernetes.io/zone": zone,
        "node.kubernetes.io/instance-type": "m6i.xlarge",
        "topology.ebs.csi.aws.com/zone": zone,
        "topology.k8s.aws/zone-id": f"use1-az{ord(zone[-1]) - ord('a') + 1}",
        "topology.kubernetes.io/region": zone[:-1],
    }


def _gke_name(index: int, address: str) -> str:  # noqa: ARG001
    return f"gke-prod-default-pool-{_digest('pool')[:8]}-{_letters(f'node {index}', 4)}"


def _gke_labels(zone: str) -> dict[str, str]:
    return {
        "cloud.google.com/gke-boot-disk": "pd-balanced",
        "cloud.google.com/gke-netd-ready": "true",
        "cloud.google.com/gke-nodepool": "default-pool",
        "cloud.google.com/machine-family": "e2",
        "iam.gke.io/gke-metadata-server-enabled": "true",
        "node.kubernetes.io/instance-type": "e2-standard-4",
        "topology.gke.io/zone": zone,
        "topology.kubernetes.io/region": zone.rpartition("-")[0],
    }


def _plain_name(index: int, address: str) -> str:  # noqa: ARG001
    return f"dev-{index}"


def _plain_labels(zone: str) -> dict[str, str]:
    return {"topology.kubernetes.io/region": zone[:-1]}


# --- objects ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Cluster:
    version: str
    node_labels: Any
    node_name: Any
    _hosts: list[_Host] = field(default_factory=list)
    _nodes: list[Object] = field(default_factory=list)
    _services: list[Object] = field(default_factory=list)
    _pods: list[Object] = field(default_factory=list)
    _slices: list[Object] = field(default_factory=list)
    _cluster_ips: Iterator[int] = field(default_factory=lambda: count(10))
    _pod_ips: Iterator[int] = field(default_factory=lambda: count(256))
    _next_host: dict[str, int] = field(default_factory=dict)

    def objects(self) -> Iterator[Object]:
        """In the order of the kinds of the command."""
        yield from self._nodes
        yield from self._services
        yield from self._pods
        yield from self._slices

    # --- nodes and what runs on each of them --------------------------------------------------------------------------

    def add_nodes(self, numbers: Mapping[str, int]) -> None:
        for zone_index, (zone, node_count) in enumerate(numbers.items()):
            for index in range(node_count):
                address = f"10.{zone_index}.{index // 200}.{index % 200 + 10}"
                host = _Host(len(self._hosts), self.node_name(len(self._hosts), address), zone, address)
                self._hosts.append(host)
                self._nodes.append(self._node(host))

    def _node(self, host: _Host) -> Object:
        labels = {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", **self.node_labels(host.zone)}
        node = a_node(host.name, host.zone, cpu="3920m", address=host.address, labels=labels)
        info = {"containerRuntimeVersion": "containerd://2.1.4", "kubeProxyVersion": self.version}
        return with_field(node, "status.nodeInfo", info | {"kubeletVersion": self.version})

    def add_kube_proxy(self, image: str) -> None:
        self.run_everywhere(
            "kube-system",
            "kube-proxy",
            container="kube-proxy",
            image=image,
            labels={"k8s-app": "kube-proxy"},
            host_network=True,
        )

    def run_everywhere(
        self,
        namespace: str,
        name: str,
        *,
        container: str,
        image: str | None = None,
        labels: Mapping[str, str] | None = None,
        host_network: bool = False,
        port: int | None = None,
    ) -> list[Object]:
        """The Pods of a DaemonSet."""
        generation = _letters(f"{namespace} {name}", 10)
        marks = {"app": name, **(labels or {}), "controller-revision-hash": generation, "pod-template-generation": "1"}
        pods = [
            self._pod(
                f"{name}-{_letters(f'{name} {host.name}', 5)}",
                namespace,
                host,
                labels=marks,
                owner=("DaemonSet", name),
                container=container,
                image=image or f"registry.example.com/{name}:1.4.2",
                host_network=host_network,
                port=port,
            )
            for host in self._hosts
        ]
        self._pods += pods
        return pods

    # --- Services -----------------------------------------------------------------------------------------------------

    def add_kubernetes(self, addresses: Sequence[str]) -> None:
        """default/kubernetes, whose slice the API servers write themselves: it has no zones and no manager."""
        self._add_service("default", "kubernetes", selector=None, port=443, target=6443, spec={}, annotations={})
        slice_ = a_slice("kubernetes", service="kubernetes", addresses=addresses)
        del slice_["metadata"]["labels"][MANAGED_BY]
        slice_["ports"] = [{"name": "https", "port": 6443, "protocol": "TCP"}]
        self._slices.append(slice_)

    def add_service(
        self,
        namespace: str,
        name: str,
        *,
        pods: Sequence[int] | list[Object],
        spec: Mapping[str, Any] | None = None,
        annotations: Mapping[str, str] | None = None,
        hinted: bool = False,
    ) -> None:
        """Add a Service with new Pods, this number in each zone, or with a DaemonSet's Pods; and its slice.

        ``hinted``: each endpoint has a hint for its own zone.
        """
        own = [pod for pod in pods if not isinstance(pod, int)]
        if not own:
            own = list(self._deployment(namespace, name, [pod for pod in pods if isinstance(pod, int)]))
            self._pods += own
        port = own[0]["spec"]["containers"][0]["ports"][0]["containerPort"] if own else 8080
        self._add_service(
            namespace,
            name,
            selector={"app": name},
            port=port if port != 8080 else 80,
            target="http",
            spec=spec or {},
            annotations=annotations or {},
        )
        zone_of = {host.name: host.zone for host in self._hosts}
        endpoints: list[Object] = []
        for pod in own:
            node = pod["spec"]["nodeName"]
            hints = {"hints": {"forZones": [{"name": zone_of[node]}]}} if hinted else {}
            endpoints.append(
                {
                    "addresses": [pod["status"]["podIP"]],
                    "conditions": {"ready": True, "serving": True, "terminating": False},
                    **hints,
                    "nodeName": node,
                    "targetRef": {"kind": "Pod", "name": pod["metadata"]["name"], "namespace": namespace},
                    "zone": zone_of[node],
                }
            )
        slice_name = f"{name}-{_letters(f'slice {namespace} {name}', 5)}"
        slice_ = a_slice(slice_name, service=name, namespace=namespace, manager=BUILT_IN_MANAGER)
        slice_["endpoints"] = endpoints or None
        slice_["ports"] = [{"name": "http", "port": port, "protocol": "TCP"}] if own else None
        self._slices.append(slice_)

    def _deployment(self, namespace: str, name: str, numbers: Sequence[int]) -> Iterator[Object]:
        """Pods of its ReplicaSet, this number in each zone, on one node after the other."""
        revision = _letters(f"revision {namespace} {name}", 10)
        zones = dict.fromkeys(host.zone for host in self._hosts)
        for zone, pod_count in zip(zones, numbers, strict=True):
            hosts = [host for host in self._hosts if host.zone == zone]
            for _ in range(pod_count):
                turn = self._next_host.get(zone, 0)
                self._next_host[zone] = turn + 1
                ip_index = next(self._pod_ips)
                yield self._pod(
                    f"{name}-{revision}-{_letters(f'{namespace} {name} {ip_index}', 5)}",
                    namespace,
                    hosts[turn % len(hosts)],
                    labels={"app": name, "pod-template-hash": revision},
                    owner=("ReplicaSet", f"{name}-{revision}"),
                    container=name,
                    image=f"registry.example.com/{namespace}/{name}:2.7.0",
                    port=8080,
                    ip_index=ip_index,
                )

    def _add_service(
        self,
        namespace: str,
        name: str,
        *,
        selector: Mapping[str, str] | None,
        port: int,
        target: int | str,
        spec: Mapping[str, Any],
        annotations: Mapping[str, str],
    ) -> None:
        ip_index = next(self._cluster_ips)
        address = f"172.20.{ip_index // 250}.{ip_index % 250 + 1}"
        ports = [{"name": "https" if port == 443 else "http", "port": port, "protocol": "TCP", "targetPort": target}]
        known: Object = {
            "clusterIP": address,
            "clusterIPs": [address],
            "internalTrafficPolicy": "Cluster",
            "ports": ports,
        }
        service = a_service(name, namespace=namespace, selector=selector, annotations=annotations, **known)
        service["spec"] |= {"internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"], "type": "ClusterIP", **spec}
        self._services.append(service)

    def _pod(
        self,
        name: str,
        namespace: str,
        host: _Host,
        *,
        labels: Mapping[str, str],
        owner: tuple[str, str],
        container: str,
        image: str,
        host_network: bool = False,
        port: int | None = None,
        ip_index: int | None = None,
    ) -> Object:
        if host_network:
            address = host.address
        else:
            ip_index = next(self._pod_ips) if ip_index is None else ip_index
            address = f"10.{100 + ip_index // 65_000}.{ip_index % 65_000 // 250}.{ip_index % 250 + 1}"
        kind, owner_name = owner
        ports = [{"containerPort": port, "name": "http", "protocol": "TCP"}] if port else []
        pod = a_pod(name, node=host.name, ips=[address], namespace=namespace, labels=labels)
        pod["metadata"]["ownerReferences"] = [
            {"apiVersion": "apps/v1", "controller": True, "kind": kind, "name": owner_name}
        ]
        pod["spec"]["containers"] = [{"image": image, "name": container, "ports": ports}]
        return with_field(pod, "spec.hostNetwork", True) if host_network else pod


# --- made-up names ----------------------------------------------------------------------------------------------------


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _letters(text: str, length: int) -> str:
    return "".join(_SAFE[byte % len(_SAFE)] for byte in sha256(text.encode()).digest()[:length])
