"""Makes the sample cluster: an online shop in three zones of unequal size, as one YAML file of many documents.

    python examples/sample/make.py > src/zoneward/sample/cluster.yaml

`shop` says what is in it; the functions here write it down as an API server would hand it out. Names, uids, times and
cluster addresses come from hashes of what they belong to, never from chance or a clock: one Service more changes the
others little. ``resourceVersion`` is left out, so that the file can be applied to an empty cluster too.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final
from uuid import UUID

import yaml
from shop import (
    CONTROL_PLANE,
    HEADER,
    HOSTS,
    LOST,
    MEMORY_RESERVE,
    REGION,
    SHAPES,
    SNAPSHOT,
    WORKLOADS,
    ZONES,
    Host,
    State,
    Workload,
)

Document = dict[str, Any]

KUBERNETES: Final = "v1.37.2"
FLOW_WIDTH: Final = 90
"""Characters up to which a mapping or list of plain values goes on one line."""


# --- names, numbers and times -----------------------------------------------------------------------------------------


def number(key: str) -> int:
    """A number of 128 bits that belongs to ``key``: the same in every run."""
    return int.from_bytes(sha256(key.encode()).digest()[:16], "big")


def letters(key: str, *, length: int) -> str:
    """What Kubernetes appends to the names that it makes up: no vowels, no digits that look like letters."""
    rest, alphabet = number(key), "bcdfghjklmnpqrstvwxz2456789"
    return "".join(alphabet[(rest := rest // 27) % 27] for _ in range(length))


def written(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def metadata(kind: str, name: str, namespace: str | None = None, *, days: range, **more: Any) -> Document:
    """Metadata of an object that was created some days, out of ``days``, and an hour before the snapshot."""
    key = f"{kind} {namespace}/{name}"
    age = timedelta(days=days.start, hours=1, seconds=number(f"age of {key}") % (len(days) * 86400))
    return {
        "creationTimestamp": written(SNAPSHOT - age),
        "name": name,
        "uid": str(UUID(int=number(key), version=4)),
        **({"namespace": namespace} if namespace else {}),
        **more,
    }


# --- Namespaces and Nodes ---------------------------------------------------------------------------------------------


def namespaces() -> Iterator[Document]:
    for name in sorted({workload.namespace for workload in WORKLOADS}):
        labels = {"kubernetes.io/metadata.name": name}
        yield {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": metadata("Namespace", name, days=range(300, 310), labels=labels),
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        }


def kube_proxy() -> Document:
    """What ``kubeadm`` makes, so that predictions know the nodes' proxies."""
    labels = {"k8s-app": "kube-proxy"}
    container = {
        "command": ["/usr/local/bin/kube-proxy", "--config=/var/lib/kube-proxy/config.conf"],
        "image": f"registry.k8s.io/kube-proxy:{KUBERNETES}",
        "name": "kube-proxy",
    }
    pods = {
        "hostNetwork": True,
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "containers": [container],
        "priorityClassName": "system-node-critical",
        "tolerations": [{"operator": "Exists"}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": metadata("DaemonSet", "kube-proxy", "kube-system", days=range(290, 300), labels=labels),
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pods}},
    }


def host_address(host: Host) -> str:
    return f"10.10.{ZONES.index(host.zone) + 1}.{HOSTS.index(host) + 11}"


def node(position: int, host: Host) -> Document:
    shape = SHAPES[host.instance]
    labels = {
        "kubernetes.io/arch": shape.arch,
        "kubernetes.io/hostname": host.name,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": host.instance,
        "topology.kubernetes.io/region": REGION,
        "topology.kubernetes.io/zone": REGION + host.zone,
    }
    spec: Document = {
        "podCIDR": f"10.244.{position}.0/24",
        "podCIDRs": [f"10.244.{position}.0/24", f"fd00:10:244:{position:x}::/64"],
        "providerID": f"aws:///{REGION}{host.zone}/i-{number(host.name) >> 60:017x}",
    }
    if host.name == CONTROL_PLANE:
        labels["node-role.kubernetes.io/control-plane"] = ""
        labels["node.kubernetes.io/exclude-from-external-load-balancers"] = ""
        spec["taints"] = [{"effect": "NoSchedule", "key": "node-role.kubernetes.io/control-plane"}]
    meta = metadata("Node", host.name, days=range(20, 90), labels=labels)
    if host.name == LOST:
        changed = written(SNAPSHOT - timedelta(minutes=2))
        taint = {"key": "node.kubernetes.io/unreachable", "timeAdded": changed}
        spec["taints"] = [{"effect": effect, **taint} for effect in ("NoSchedule", "NoExecute")]
        states = dict.fromkeys(("MemoryPressure", "DiskPressure", "Ready"), ("Unknown", "NodeStatusUnknown"))
    else:
        changed = meta["creationTimestamp"]
        states = {
            "MemoryPressure": ("False", "KubeletHasSufficientMemory"),
            "DiskPressure": ("False", "KubeletHasNoDiskPressure"),
            "Ready": ("True", "KubeletReady"),
        }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": meta,
        "spec": spec,
        "status": {
            "addresses": [
                {"address": host_address(host), "type": "InternalIP"},
                {"address": host.name, "type": "Hostname"},
            ],
            "allocatable": {"cpu": shape.allocatable, "memory": f"{shape.memory - MEMORY_RESERVE}Ki", "pods": "110"},
            "capacity": {"cpu": str(shape.cores), "memory": f"{shape.memory}Ki", "pods": "110"},
            "conditions": [
                {"lastTransitionTime": changed, "reason": reason, "status": status, "type": kind}
                for kind, (status, reason) in states.items()
            ],
            "nodeInfo": {
                "architecture": shape.arch,
                "containerRuntimeVersion": "containerd://2.1.4",
                "kubeletVersion": KUBERNETES,
                "operatingSystem": "linux",
                "osImage": "Ubuntu 24.04.3 LTS",
            },
        },
    }


# --- Services and EndpointSlices --------------------------------------------------------------------------------------


def label(workload: Workload) -> dict[str, str]:
    """What the Service selects by, and its own label."""
    return {"k8s-app" if workload.namespace == "kube-system" else "app": workload.name}


def service(workload: Workload) -> Document:
    key = number(f"clusterIP {workload.namespace}/{workload.name}")
    spec: Document = {"sessionAffinity": "None", "type": "ClusterIP"} | workload.spec
    if workload.kind is not None:
        spec["selector"] = label(workload)
    if spec["type"] != "ExternalName":
        defaults: Document = {
            "clusterIP": f"10.96.{key % 250 + 2}.{key // 250 % 250 + 2}",
            "internalTrafficPolicy": "Cluster",
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
        }
        spec = defaults | spec
        spec["clusterIPs"] = [spec["clusterIP"]]
        if "IPv6" in spec["ipFamilies"]:
            spec["clusterIPs"] += [f"fd00:10:96::{key % 0xFFFF:x}"]
        ports: list[Document] = [
            {
                "name": port.name,
                "port": port.port,
                "protocol": port.protocol,
                "targetPort": port.target if port.by_number else port.name,
                **({"appProtocol": port.app_protocol} if port.app_protocol else {}),
            }
            for port in workload.ports
        ]
        spec["ports"] = ports
    balancer: Document = {}
    if spec["type"] == "LoadBalancer":
        spec["allocateLoadBalancerNodePorts"] = True
        spec["ports"] = [
            port | {"nodePort": 30000 + key % 1800 + position} for position, port in enumerate(spec["ports"])
        ]
        balancer = {"ingress": [{"ip": "203.0.113.20", "ipMode": "VIP"}]}
    more = {"annotations": workload.annotations} if workload.annotations else {}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(
            "Service", workload.name, workload.namespace, days=range(100, 290), labels=label(workload), **more
        ),
        "spec": spec,
        "status": {"loadBalancer": balancer},
    }


def bank_gateway_slice() -> Document:
    """Two lines to a bank outside the cluster; whoever wrote this said which zones they end in, but gave no hints."""
    labels = {
        "endpointslice.kubernetes.io/managed-by": "payments-team.example",
        "kubernetes.io/service-name": "bank-gateway",
    }
    return {
        "addressType": "IPv4",
        "apiVersion": "discovery.k8s.io/v1",
        "endpoints": [
            {"addresses": [f"203.0.113.{host}"], "conditions": {"ready": True}, "zone": REGION + zone}
            for host, zone in ((130, "a"), (140, "b"))
        ],
        "kind": "EndpointSlice",
        "metadata": metadata("EndpointSlice", "bank-gateway-lines", "payments", days=range(90, 100), labels=labels),
        "ports": [{"name": "https", "port": 8443, "protocol": "TCP"}],
    }


# --- Pods -------------------------------------------------------------------------------------------------------------


class Placement:
    """Puts one pod after the other on Nodes; remembers how many each has."""

    def __init__(self) -> None:
        self._pods: Counter[Host] = Counter()

    def in_zone(self, zone: str) -> Host:
        """The ready worker of a zone with the fewest pods for its size."""
        workers = [host for host in HOSTS if host.zone == zone and host.name not in {CONTROL_PLANE, LOST}]
        return min(workers, key=lambda host: (self._pods[host] + 1) / SHAPES[host.instance].cores)

    def addresses(self, host: Host) -> list[str]:
        """The addresses of one more pod there: IPv4, IPv6. The bridge has .1."""
        self._pods[host] += 1
        position, last = HOSTS.index(host) + 1, self._pods[host] + 1
        return [f"10.244.{position}.{last}", f"fd00:10:244:{position:x}::{last:x}"]


def pods(workload: Workload, placement: Placement) -> Iterator[Document]:
    named = {host.name: host for host in HOSTS}
    for position, (state, place) in enumerate(workload.places()):
        host = None if place is None else named.get(place) or placement.in_zone(place)
        yield pod(workload, position, state, host, placement.addresses(host) if host else [])


def pod_name(workload: Workload, position: int, state: State) -> tuple[str, dict[str, str]]:
    """A pod's name, and the labels that its owner gives it."""
    owner = workload.owner or workload.name
    template = letters(f"template of {workload.namespace}/{owner}", length=10)
    drawn = letters(f"pod {position} of {workload.namespace}/{owner}", length=5)
    if state == "finished":
        job = f"{owner}-reindex-{int(SNAPSHOT.timestamp()) // 60 - 374}"
        return f"{job}-{drawn}", {"batch.kubernetes.io/job-name": job}
    if workload.kind == "StatefulSet":
        name = f"{owner}-{position}"
        return name, {"apps.kubernetes.io/pod-index": str(position), "statefulset.kubernetes.io/pod-name": name}
    if workload.kind == "DaemonSet":
        return f"{owner}-{drawn}", {"controller-revision-hash": template}
    return f"{owner}-{template}-{drawn}", {"pod-template-hash": template}


def pod(workload: Workload, position: int, state: State, host: Host | None, addresses: list[str]) -> Document:
    name, labels = pod_name(workload, position, state)
    labels |= label(workload)
    spec: Document = {
        "containers": [
            {
                "image": workload.image or f"registry.shop.example/{workload.namespace}/{workload.name}:v2026.10.2",
                "name": workload.name,
                "ports": [
                    {"containerPort": port.target, "name": port.name, "protocol": port.protocol}
                    for port in workload.ports
                ],
            }
        ]
    }
    more: Document = {"labels": labels}
    if state in {"draining", "stopped"}:
        more |= {"deletionGracePeriodSeconds": 30, "deletionTimestamp": written(SNAPSHOT + timedelta(seconds=18))}
    if state == "finished":
        spec["containers"][0].pop("ports")
        spec["restartPolicy"] = "OnFailure"
    if workload.kind == "StatefulSet":
        spec |= {"hostname": name, "subdomain": workload.name}
    if host is not None:
        labels |= {"topology.kubernetes.io/region": REGION, "topology.kubernetes.io/zone": REGION + host.zone}
        spec["nodeName"] = host.name
    meta = metadata("Pod", name, workload.namespace, days=range(9), **more)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": spec,
        "status": pod_status(workload, state, host, addresses, created=meta["creationTimestamp"]),
    }


def pod_status(workload: Workload, state: State, host: Host | None, addresses: list[str], *, created: str) -> Document:
    if host is None:
        reasons = f"{len(HOSTS) - 2} Insufficient cpu, 2 node(s) had untolerated taint(s)"
        unscheduled = {
            "lastTransitionTime": created,
            "message": f"0/{len(HOSTS)} nodes are available: {reasons}.",
            "reason": "Unschedulable",
            "status": "False",
            "type": "PodScheduled",
        }
        return {"conditions": [unscheduled], "phase": "Pending"}
    since = datetime.fromisoformat(created) + timedelta(seconds=9)
    ready: Document = {"status": "True", "type": "Ready"}
    if state == "finished":
        since += timedelta(minutes=7)
        ready |= {"status": "False", "reason": "PodCompleted"}
    elif state == "stranded":
        # The node lifecycle controller does this 40 s after a Node's last sign, and gives no reason.
        since = SNAPSHOT - timedelta(seconds=118)
        ready |= {"status": "False"}
    elif state in {"unready", "stopped"}:
        since = SNAPSHOT - timedelta(seconds=11)
        ready |= {
            "status": "False",
            "reason": "ContainersNotReady",
            "message": f"containers with unready status: [{workload.name}]",
        }
    return {
        "conditions": [
            {"lastTransitionTime": created, "status": "True", "type": "PodScheduled"},
            {"lastTransitionTime": written(since), **ready},
        ],
        "hostIP": host_address(host),
        "phase": "Succeeded" if state == "finished" else "Running",
        "podIP": addresses[0],
        "podIPs": [{"ip": address} for address in addresses],
        "startTime": created,
    }


# --- the file ---------------------------------------------------------------------------------------------------------


class CompactDumper(yaml.SafeDumper):
    """Keys sorted, as kubectl prints them; what is short and holds only plain values goes on one line.

    What stands twice is written twice: files with aliases are read many times slower (and by fewer tools).
    """

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def _is_short(*values: Any) -> bool:
    plain = not any(isinstance(value, dict | list) for value in values)
    return plain and sum(len(str(value)) + 2 for value in values) <= FLOW_WIDTH


CompactDumper.add_representer(
    dict,
    lambda dumper, data: dumper.represent_mapping(
        "tag:yaml.org,2002:map", data, flow_style=_is_short(*data, *data.values())
    ),
)
CompactDumper.add_representer(
    list, lambda dumper, data: dumper.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=_is_short(*data))
)


def documents() -> Iterator[tuple[str, Document]]:
    """The documents, each with the comment above it, which may be empty."""
    for namespace in namespaces():
        yield "", namespace
    for position, host in enumerate(HOSTS, start=1):
        yield "", node(position, host)
    yield "# The proxy of every node.\n", kube_proxy()
    for workload in WORKLOADS:
        yield f"# {workload.namespace}/{workload.name}: {workload.shows}\n", service(workload)
    yield "# What a person wrote for payments/bank-gateway; the controller leaves it alone.\n", bank_gateway_slice()
    placement = Placement()
    for workload in WORKLOADS:
        comment = f"# Pods of {workload.namespace}/{workload.name}.\n"
        for document in pods(workload, placement):
            yield comment, document
            comment = ""


def main() -> None:
    # No separator before the first document: to those who split at it, the header would be a document of its own.
    sys.stdout.write(HEADER)
    sys.stdout.write(
        "---\n".join(
            comment + yaml.dump(document, Dumper=CompactDumper, sort_keys=True, width=1000)
            for comment, document in documents()
        )
    )


if __name__ == "__main__":
    main()
