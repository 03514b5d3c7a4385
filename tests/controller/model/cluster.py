"""A cluster that others change: a kubelet, people, programs that write to slices of another manager. And what has to be
listed for its Pods, counted without any of the code that plans."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from tests.builders.objects import SERVICE_NAME, ZONE, a_node, a_pod, a_service
from tests.sandbox.server.local_client import LocalClient

from zoneward.kube import names
from zoneward.sandbox.server.garbage_collector import GarbageCollector
from zoneward.sandbox.server.kinds import Kind
from zoneward.sandbox.server.resource_registry import Registry
from zoneward.sandbox.server.status_errors import StatusError

Object = dict[str, Any]
SLICES: Final = "endpointslices.discovery.k8s.io"
"""As the registry calls them."""
NAMESPACE: Final = "default"
MOST_NODES: Final = 6
MOST_PODS: Final = 12
SERVICES: Final = ("cart", "all", "shop")
_SELECTORS: Final = ({"app": "cart"}, {"tier": "front"}, {"app": "shop"}, {"app": "nobody"})
_PORTS: Final = (
    [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "http"}],
    [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}],
    [
        {"name": "http", "port": 80, "protocol": "TCP", "targetPort": "http"},
        {"name": "admin", "port": 81, "protocol": "TCP", "targetPort": 9000},
    ],
)
_ZONES: Final = ("a", "b", "c", "d", None)
_MODE, _SUBSETTING = names.TOPOLOGY_MODE_ANNOTATION, names.SUBSETTING_ANNOTATION
ASKED: Final[tuple[tuple[dict[str, str], str | None], ...]] = (
    ({}, None),
    ({_MODE: "Auto"}, None),
    ({_SUBSETTING: "Require", names.STARTING_THRESHOLD_ANNOTATION: "0.5"}, None),
    ({}, "PreferSameZone"),
    ({_SUBSETTING: "Auto", names.STARTING_THRESHOLD_ANNOTATION: "1"}, None),
    ({}, "PreferSameNode"),
    ({_MODE: "PreferZone"}, None),
    ({_SUBSETTING: "Auto", names.STARTING_THRESHOLD_ANNOTATION: "0.5"}, None),
    ({_MODE: "Banana"}, None),
    ({_MODE: "Disabled"}, "PreferClose"),
    ({"example.com/about": "nothing"}, None),
)
"""Annotations and the field of a Service: every approach."""
_ALGORITHMS: Final = (None, "local-shared", "local", "local-opt")


Ports = tuple[tuple[str, int], ...]
"""By name."""


@dataclass(frozen=True, slots=True)
class Listed:
    """What slices have to say of one address."""

    ready: bool
    serving: bool
    terminating: bool
    node: str
    zone: str | None
    ports: Ports


class Cluster:
    """Changes that make no sense at the moment do nothing."""

    def __init__(self, registry: Registry, *, collects_garbage: bool) -> None:
        self.registry: Final = registry
        self._store: Final = LocalClient(registry)
        self._garbage = GarbageCollector(registry) if collects_garbage else None
        self._lives = 0

    # --- objects ------------------------------------------------------------------------------------------------------

    def kind(self, resource: str) -> Kind:
        return self.registry.kinds[resource]

    def objects(self, resource: str) -> list[Object]:
        return [record.object() for _, record in self.registry.store.records(self.kind(resource))]

    def services(self) -> list[Object]:
        """But that of the API server."""
        return [object_ for object_ in self.objects("services") if object_["metadata"]["name"] in SERVICES]

    def slices(self) -> list[Object]:
        return self.objects(SLICES)

    # --- what has to be listed ----------------------------------------------------------------------------------------

    def expected(self, service: Object) -> dict[str, Listed]:
        """By address, for a Service with a selector."""
        spec = service["spec"]
        nodes = {
            object_["metadata"]["name"]: object_["metadata"]["labels"].get(ZONE) for object_ in self.objects("nodes")
        }
        publishes = bool(spec.get("publishNotReadyAddresses"))
        result: dict[str, Listed] = {}
        for pod in self.objects("pods"):
            node, labels, status = pod["spec"]["nodeName"], pod["metadata"]["labels"], pod["status"]
            if any(labels.get(name) != value for name, value in spec["selector"].items()):
                continue
            if status["phase"] in ("Failed", "Succeeded") or (nodes and node not in nodes and not publishes):
                continue
            serving = any(
                condition["type"] == "Ready" and condition["status"] == "True" for condition in status["conditions"]
            )
            terminating = "deletionTimestamp" in pod["metadata"]
            named = {port["name"]: port["containerPort"] for port in pod["spec"]["containers"][0]["ports"]}
            targets = [(port["name"], port["targetPort"]) for port in spec["ports"]]
            ports = tuple(sorted((name, named.get(target, target)) for name, target in targets))
            listed = Listed(
                publishes or (serving and not terminating), serving, terminating, node, nodes.get(node), ports
            )
            for ip in (pod_ip["ip"] for pod_ip in status.get("podIPs") or ()):
                if ("IPv6" if ":" in ip else "IPv4") in spec["ipFamilies"]:
                    result[ip] = listed
        return result

    def listed(self, service: str) -> Iterator[tuple[str, Listed]]:
        """Addresses with what is listed for them, once per listing, in Zoneward's slices."""
        for slice_ in self.slices():
            if not is_own(slice_, service):
                continue
            ports = tuple(sorted((port["name"], port["port"]) for port in slice_.get("ports") or ()))
            for one in slice_.get("endpoints") or ():
                said = one["conditions"]
                states = said["ready"], said["serving"], said["terminating"]
                (address,) = one["addresses"]
                yield address, Listed(*states, one["nodeName"], one.get("zone"), ports)

    # --- Nodes --------------------------------------------------------------------------------------------------------

    def node(self, index: int, zone: int) -> None:
        """Comes, or is in another zone now."""
        name, in_zone = _node(index), _ZONES[zone % len(_ZONES)]
        if self.registry.find("nodes", "", name) is None:
            cpu, address = str(2 + zone % 3 * 2), f"192.168.0.{index % MOST_NODES + 1}"
            self.registry.restore(self.kind("nodes"), a_node(name, zone=in_zone, cpu=cpu, address=address))
            return

        def moved(node: Object) -> Object:
            labels = {name: value for name, value in node["metadata"]["labels"].items() if name != ZONE}
            return _with(node, labels=labels | ({ZONE: in_zone} if in_zone else {}))

        self._change("nodes", name, moved)

    def node_gone(self, index: int) -> None:
        self._delete("nodes", _node(index))

    def node_ready(self, index: int, ready: bool) -> None:
        condition = {"type": "Ready", "status": str(ready), "reason": "x", "message": ""}
        self._change_status("nodes", _node(index), lambda _node: {"conditions": [condition]})

    # --- Pods ---------------------------------------------------------------------------------------------------------

    def pod(self, index: int, node: int, *, ready: bool = True) -> None:
        """A new one, with addresses that no other ever had."""
        index %= MOST_PODS
        if self.registry.find("pods", NAMESPACE, _pod(index)) is not None:
            return
        labels = {"app": "shop" if index % 4 == 3 else "cart", "tier": "front"}
        pod = a_pod(_pod(index), node=_node(node), ips=self._addresses(index), labels=labels, ready=ready)
        pod["spec"]["containers"][0]["ports"][0]["containerPort"] = 9090 if index % 5 == 4 else 8080
        pod["spec"]["terminationGracePeriodSeconds"] = 30
        self.registry.restore(self.kind("pods"), pod)

    def _addresses(self, index: int) -> list[str]:
        self._lives += 1
        four = f"10.0.{index}.{self._lives % 250 + 1}"
        return [four] if index % 4 == 2 else [four, f"fd00::{index + 1:x}:{self._lives:x}"]

    def flip(self, index: int) -> None:
        """Not ready any more, or ready again."""

        def flipped(pod: Object) -> Object:
            (condition,) = (condition for condition in pod["status"]["conditions"] if condition["type"] == "Ready")
            status = "False" if condition["status"] == "True" else "True"
            now = self.registry.now.strftime("%Y-%m-%dT%H:%M:%SZ")
            return {"conditions": [condition | {"status": status, "lastTransitionTime": now}]}

        self._change_status("pods", _pod(index), flipped)

    def readdress(self, index: int) -> None:
        """Its sandbox was created again."""
        ips = self._addresses(index % MOST_PODS)
        status = {"podIP": ips[0], "podIPs": [{"ip": ip} for ip in ips]}
        self._change_status("pods", _pod(index), lambda _pod: status)

    def relabel(self, index: int, what: int) -> None:
        labels = ({"app": "shop", "tier": "front"}, {"app": "cart", "tier": "front"}, {"app": "cart"}, {})[what % 4]
        self._change("pods", _pod(index), lambda pod: _with(pod, labels=labels))

    def finish(self, index: int) -> None:
        """Evicted, say."""
        self._change_status("pods", _pod(index), lambda _pod: {"phase": "Failed"})

    def end(self, index: int) -> None:
        """It is asked to go, and terminates until `pod_gone`."""
        self._delete("pods", _pod(index))

    def pod_gone(self, index: int) -> None:
        self._delete("pods", _pod(index), grace=0)

    def replace_pod(self, index: int, node: int) -> None:
        """Gone and back under its name, as a StatefulSet has it."""
        self.pod_gone(index)
        self.pod(index, node)

    # --- Services -----------------------------------------------------------------------------------------------------

    def service(self, index: int, sort: int) -> None:
        name, selector = _service(index), _SELECTORS[index % len(SERVICES)]
        if self.registry.find("services", NAMESPACE, name) is not None:
            return
        annotations, distribution = ASKED[sort // 4 % len(ASKED)]
        service = a_service(name, selector=selector, annotations=annotations, distribution=distribution)
        match sort % 4:
            case 1:
                service["spec"] |= {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"]}
            case 3:
                service["spec"]["clusterIP"] = "None"
        self._store.create(self.kind("services"), NAMESPACE, service)

    def ask(self, index: int, what: int) -> None:
        """Another approach."""
        annotations, distribution = ASKED[what % len(ASKED)]
        algorithm = _ALGORITHMS[what // len(ASKED) % len(_ALGORITHMS)]
        if algorithm is not None and _SUBSETTING in annotations:
            annotations = annotations | {names.SUBSETTING_ALGORITHM_ANNOTATION: algorithm}

        def changed(service: Object) -> Object:
            spec = {name: value for name, value in service["spec"].items() if name != "trafficDistribution"}
            spec |= {} if distribution is None else {"trafficDistribution": distribution}
            return _with(service, annotations=annotations) | {"spec": spec}

        self._change("services", _service(index), changed)

    def select(self, index: int, what: int) -> None:
        self._specify(index, {"selector": _SELECTORS[what % len(_SELECTORS)]})

    def ports(self, index: int, what: int) -> None:
        self._specify(index, {"ports": _PORTS[what % len(_PORTS)]})

    def publish(self, index: int, what: int) -> None:
        self._specify(index, {"publishNotReadyAddresses": what % 2 == 0})

    def families(self, index: int, what: int) -> None:
        """One family or two."""

        def changed(service: Object) -> Object:
            spec = service["spec"]
            if what % 2 == 0:
                return service | {"spec": spec | {"ipFamilyPolicy": "RequireDualStack"}}
            first = {name: spec[name][:1] for name in ("ipFamilies", "clusterIPs") if name in spec}
            return service | {"spec": spec | first | {"ipFamilyPolicy": "SingleStack"}}

        self._change("services", _service(index), changed)

    def label_service(self, index: int, what: int) -> None:
        """Labels of a Service are labels of its slices."""
        labels = ({}, {"team": "one"}, {"team": "two", "x": "y"})[what % 3]
        self._change("services", _service(index), lambda service: _with(service, labels=labels))

    def service_gone(self, index: int) -> None:
        self._delete("services", _service(index))

    def replace_service(self, index: int, sort: int) -> None:
        """Deleted and created under the same name."""
        self.service_gone(index)
        self.service(index, sort)

    def _specify(self, index: int, fields: Object) -> None:
        self._change("services", _service(index), lambda service: service | {"spec": service["spec"] | fields})

    # --- slices, by who wrote them before us --------------------------------------------------------------------------

    def write_as_built_in(self) -> None:
        """One slice for each Service, family and set of ports."""
        for service in self.services():
            groups: defaultdict[tuple[str, Ports], list[Object]] = defaultdict(list)
            for address, listing in self.expected(service).items():
                conditions = {"ready": listing.ready, "serving": listing.serving, "terminating": listing.terminating}
                endpoint = {
                    "addresses": [address],
                    "conditions": conditions,
                    "nodeName": listing.node,
                    "zone": listing.zone,
                }
                groups["IPv6" if ":" in address else "IPv4", listing.ports].append(endpoint)
            for (family, ports), endpoints in groups.items():
                name = service["metadata"]["name"]
                labels = {SERVICE_NAME: name, names.MANAGED_BY_LABEL: names.BUILT_IN_MANAGER}
                slice_ = {
                    "metadata": {"generateName": f"{name}-", "labels": labels},
                    "addressType": family,
                    "endpoints": endpoints,
                    "ports": [{"name": port, "port": index, "protocol": "TCP"} for port, index in ports],
                }
                self._store.create(self.kind(SLICES), NAMESPACE, slice_)

    # --- slices, by somebody who should not ---------------------------------------------------------------------------

    def meddle(self, index: int, what: int) -> None:
        """With one of the slices that are there."""
        result = [slice_ for slice_ in self.slices() if not is_own(slice_, manager=names.BUILT_IN_MANAGER)]
        if not result:
            return
        slice_ = result[index % len(result)]
        metadata, endpoints = slice_["metadata"], slice_.get("endpoints") or []
        name, labels = metadata["name"], metadata["labels"]
        choice = what // 16

        def put(**fields: Any) -> None:
            self._change(SLICES, name, lambda old: old | fields)

        def mark(**metadata: Any) -> None:
            self._change(SLICES, name, lambda old: _with(old, **metadata))

        match what % 16:
            case 0 | 1:
                put(endpoints=endpoints[1:])
            case 2:
                put(endpoints=[])
            case 3:
                self._delete(SLICES, name)
            case 4:
                self._copy(slice_, f"{name}-copy"[-60:], labels)
            case 5:
                # Gone, and something else has its name.
                self._delete(SLICES, name)
                self._copy(slice_, name, labels | {names.MANAGED_BY_LABEL: "example.com"})
            case 6:
                mark(labels=labels | {names.MANAGED_BY_LABEL: "example.com"})
            case 7:
                mark(labels=labels | {SERVICE_NAME: SERVICES[choice % len(SERVICES)]})
            case 8:
                mark(labels={label: labels[label] for label in labels if label != SERVICE_NAME})
            case 9:
                mark(labels=labels | {"x": str(choice)})
            case 10:
                mark(annotations=({}, {"x": "y"}, {names.APPROACH_ANNOTATION: "?"})[choice % 3])
            case 11:
                foreign = {"addresses": ["fd00::1:1" if slice_["addressType"] == "IPv6" else "10.9.9.9"]}
                put(endpoints=[*endpoints, foreign])
            case 12:
                put(endpoints=[endpoint | {"conditions": {"ready": False}} for endpoint in endpoints])
            case 13:
                put(
                    endpoints=[
                        {field: endpoint[field] for field in endpoint if field != "hints"} for endpoint in endpoints
                    ]
                )
            case 14:
                mark(labels=labels | {names.ZONE_LABEL: "abcd"[choice % 4]})
            case 15:
                put(ports=[{"name": "http", "port": 8081, "protocol": "TCP"}])

    def _copy(self, slice_: Object, name: str, labels: Object) -> None:
        metadata = {
            key: value for key, value in slice_["metadata"].items() if key in ("annotations", "ownerReferences")
        }
        copy = slice_ | {"metadata": metadata | {"name": name, "namespace": NAMESPACE, "labels": labels}}
        try:
            self._store.create(self.kind(SLICES), NAMESPACE, copy)
        except StatusError as refusal:
            if refusal.code != 409:
                raise

    # --- all kinds ----------------------------------------------------------------------------------------------------

    def collect(self) -> None:
        """What the garbage collector does, where there is one."""
        while self._garbage is not None and not self._garbage.is_idle:
            self._garbage.collect()

    def _change(self, resource: str, name: str, change: Callable[[Object], Object]) -> None:
        namespace = "" if resource == "nodes" else NAMESPACE
        if self.registry.find(resource, namespace, name) is not None:
            self._store.update(self.kind(resource), namespace, name, change)

    def _change_status(self, resource: str, name: str, change: Callable[[Object], Object]) -> None:
        """``change`` says what fields of the status become."""
        namespace = "" if resource == "nodes" else NAMESPACE
        if self.registry.find(resource, namespace, name) is not None:
            update = self._store.patch_status
            update(self.kind(resource), namespace, name, lambda old: old | {"status": old["status"] | change(old)})

    def _delete(self, resource: str, name: str, *, grace: int | None = None) -> None:
        namespace = "" if resource == "nodes" else NAMESPACE
        if self.registry.find(resource, namespace, name) is not None:
            self._store.delete(self.kind(resource), namespace, name, grace=grace)


def is_own(slice_: Object, service: str | None = None, *, manager: str = names.MANAGER) -> bool:
    """Whether it says that it is its manager's, and of this Service."""
    labels = slice_["metadata"].get("labels") or {}
    return labels.get(names.MANAGED_BY_LABEL) == manager and service in (None, labels.get(SERVICE_NAME))


def _node(index: int) -> str:
    return f"node-{index % MOST_NODES}"


def _pod(index: int) -> str:
    return f"pod-{index % MOST_PODS}"


def _service(index: int) -> str:
    return SERVICES[index % len(SERVICES)]


def _with(object_: Object, **metadata: Any) -> Object:
    return object_ | {"metadata": object_["metadata"] | metadata}
