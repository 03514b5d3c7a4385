"""Services: defaults, cluster IPs and node ports, validation.

Only what keeps a Service usable is validated. Addresses and ports are allocated in order, above the part that
kube-apiserver reserves for clients that request their own (KEP-3070, KEP-3668). The cluster is dual-stack, IPv4 first.
"""

from collections.abc import Iterator, Mapping
from ipaddress import ip_network
from typing import Any, Final

from zoneward.kube import formats
from zoneward.kube.names import HEADLESS
from zoneward.kube.validation import (
    FieldError,
    error,
    invalid,
    labels_errors,
    not_supported,
    traffic_distribution_errors,
)
from zoneward.sandbox.server.kinds import (
    FindObject,
    Kind,
    Object,
    ServerGates,
    get_field,
    port_errors,
    port_range_errors,
    same_names,
)
from zoneward.sandbox.server.status_errors import internal

Spec = Mapping[str, Any]
NODE_PORTS: Final = range(30000, 32768)
_NETWORKS: Final = {"IPv4": ip_network("10.96.0.0/12"), "IPv6": ip_network("fd00:10:96::/112")}
_FAMILIES: Final = tuple(_NETWORKS)
_ADDRESS_FIELDS: Final = ("ipFamilyPolicy", "ipFamilies", "clusterIP", "clusterIPs")
_CHOICES: Final = {
    "ipFamilyPolicy": ("PreferDualStack", "RequireDualStack", "SingleStack"),
    "sessionAffinity": ("ClientIP", "None"),
    "type": ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort"),
    "internalTrafficPolicy": ("Cluster", "Local"),
    "externalTrafficPolicy": ("Cluster", "Local"),
}
_AFFINITY_SECONDS: Final = 10800
"""Default session affinity in seconds."""


class ServiceKind(Kind):
    kind, plural, short_names, categories = "Service", "services", ("svc",), ("all",)
    selectable = same_names("spec.clusterIP", "spec.type")
    has_status = True
    is_created_by_update = True
    name_problems = staticmethod(formats.label_problems)

    def __init__(self, gates: ServerGates) -> None:
        self._gates = gates
        self._taken: set[Any] = set()
        """Allocated addresses and ports."""
        self._next = {"IPv4": 257, "IPv6": 257, "port": 86}
        """The index of the next candidate."""

    def default(self, new: Object, old: Object | None = None) -> None:
        before = {} if old is None else old["spec"]
        new["spec"] = _defaulted(new.get("spec") or {}, before)

    def prepare_create(self, new: Object, find: FindObject) -> None:
        self.prepare_update(new, {"spec": {}, "status": {"loadBalancer": {}}}, find)

    def prepare_update(self, new: Object, old: Object, find: FindObject) -> None:
        new["status"] = old["status"]
        if old["spec"].get("type") == "LoadBalancer" != new["spec"].get("type"):
            new["status"] = new["status"] | {"loadBalancer": {}}
        if not self._gates.service_traffic_distribution and "trafficDistribution" not in old["spec"]:
            new["spec"].pop("trafficDistribution", None)

    def validate_create(self, new: Object) -> Iterator[FieldError]:
        yield from _spec_errors(new["spec"])
        has_prefer_same = self._gates.prefer_same_traffic_distribution
        value = new["spec"].get("trafficDistribution")
        yield from traffic_distribution_errors(value, has_prefer_same=has_prefer_same)

    def validate_status(self, new: Object) -> Iterator[FieldError]:
        """Errors of the load balancer; kube-apiserver does not validate conditions."""
        ingress = get_field(new, "status.loadBalancer.ingress") or ()
        if ingress and new["spec"].get("type") != "LoadBalancer":
            problem = "may only be used when `spec.type` is 'LoadBalancer'"
            yield error("FieldValueForbidden", "status.loadBalancer.ingress", problem)
            return
        for index, entry in enumerate(ingress):
            if address := entry.get("ip"):
                field = f"status.loadBalancer.ingress[{index}].ip"
                yield from invalid(field, address, formats.address_problems(address, canonical=False))

    # --- addresses and ports ------------------------------------------------------------------------------------------

    def allocate(self, new: Object, old: Object | None) -> list[FieldError]:
        spec, before = new["spec"], {} if old is None else old["spec"]
        if errors := [*_address_errors(spec, before)] or [*self._conflicts(spec, before)]:
            return errors
        if spec["type"] != "ExternalName":
            addresses = [address for address in spec.get("clusterIPs") or () if address != HEADLESS]
            families = spec["ipFamilies"] = _families(spec, addresses)
            if spec.get("clusterIP") != HEADLESS:
                addresses += [str(self._next_free(family)) for family in families[len(addresses) :]]
                spec["clusterIP"], spec["clusterIPs"] = addresses[0], addresses[: len(families)]
        if spec["type"] == "NodePort" or spec.get("allocateLoadBalancerNodePorts"):
            spec["ports"] = [
                port if "nodePort" in port else port | {"nodePort": self._next_free("port")}
                for port in spec.get("ports") or ()
            ]
        if _has_health_check(spec) and "healthCheckNodePort" not in spec:
            spec["healthCheckNodePort"] = self._next_free("port")
        return []

    def restore(self, new: Object, old: Object | None) -> Iterator[FieldError]:
        return self._conflicts(new["spec"], {} if old is None else old["spec"])

    def on_stored(self, new: Object | None, old: Object | None) -> None:
        self._taken -= set() if old is None else _held(old["spec"])
        self._taken |= set() if new is None else _held(new["spec"])

    def _next_free(self, pool: str) -> Any:
        values = NODE_PORTS if pool == "port" else _NETWORKS[pool]
        size = len(NODE_PORTS) if pool == "port" else _NETWORKS[pool].num_addresses
        for _ in range(size):
            value = values[self._next[pool]]
            self._next[pool] = (self._next[pool] + 1) % size
            if value not in self._taken:
                return value
        raise internal("failed to allocate: range is full")

    def _conflicts(self, spec: Spec, before: Spec) -> Iterator[FieldError]:
        """Errors for addresses and ports of another Service."""
        taken, addresses = self._taken - _held(before), spec.get("clusterIPs") or []
        for address in addresses if addresses != [HEADLESS] else ():
            if formats.parse_address(address) in taken:
                problem = f"failed to allocate IP {address}: provided IP is already allocated"
                yield from invalid("spec.clusterIPs", addresses, [problem])
        for index, node_port in enumerate(port.get("nodePort") for port in spec.get("ports") or ()):
            if node_port in taken:
                problem = "provided port is already allocated"
                yield error("FieldValueInvalid", f"spec.ports[{index}].nodePort", problem, value=node_port)


def _held(spec: Spec) -> set[Any]:
    ips = [address for address in spec.get("clusterIPs") or () if address != HEADLESS]
    ports = [port.get("nodePort") for port in spec.get("ports") or ()]
    return {*map(formats.parse_address, ips), *ports, spec.get("healthCheckNodePort")} - {None, 0}


def _families(spec: dict[str, Any], addresses: list[str]) -> list[str]:
    is_free = spec.get("clusterIP") == HEADLESS and not spec.get("selector")
    policy = spec.setdefault("ipFamilyPolicy", "RequireDualStack" if is_free else "SingleStack")
    first = [*map(_family_of, addresses), *(spec.get("ipFamilies") or ()), _FAMILIES[0]][0]
    return [first] if policy == "SingleStack" else [first, _FAMILIES[1 - _FAMILIES.index(first)]]


def _family_of(address: str) -> str:
    return "IPv6" if ":" in address else "IPv4"


# --- defaults ---------------------------------------------------------------------------------------------------------


def _defaulted(spec: Object, before: Spec) -> Object:
    """The spec with defaults and allocated values, and without the fields that the type does not use."""
    # An empty trafficDistribution is one that validation refuses.
    filled = {name: value for name, value in spec.items() if value or value is False or name == "trafficDistribution"}
    type_ = filled.setdefault("type", "ClusterIP")
    is_external = type_ in ("NodePort", "LoadBalancer") or (type_ == "ClusterIP" and bool(filled.get("externalIPs")))
    if filled.setdefault("sessionAffinity", "None") == "None":
        filled.pop("sessionAffinityConfig", None)
    else:
        filled.setdefault("sessionAffinityConfig", {"clientIP": {"timeoutSeconds": _AFFINITY_SECONDS}})
    if is_external:
        filled.setdefault("externalTrafficPolicy", "Cluster")
    if type_ != "ExternalName":
        filled.setdefault("internalTrafficPolicy", "Cluster")
    if type_ == "LoadBalancer":
        filled.setdefault("allocateLoadBalancerNodePorts", True)
    for name in ("healthCheckNodePort", *(_ADDRESS_FIELDS if before.get("type") != "ExternalName" else ())):
        if name in before:
            filled.setdefault(name, before[name])
    # A client may set only the first address.
    if (address := filled.get("clusterIP")) and address != (filled.get("clusterIPs") or [""])[0]:
        filled["clusterIPs"] = [address]
    if "ports" in filled:
        known = {port.get("name", ""): port["nodePort"] for port in before.get("ports") or () if "nodePort" in port}
        filled["ports"] = [_defaulted_port(port, known, has_node_port=is_external) for port in filled["ports"]]
    gone = [
        *(() if is_external else ("externalTrafficPolicy",)),
        *(() if type_ == "LoadBalancer" else ("allocateLoadBalancerNodePorts", "loadBalancerClass")),
        *(() if _has_health_check(filled) else ("healthCheckNodePort",)),
        *((*_ADDRESS_FIELDS, "internalTrafficPolicy") if type_ == "ExternalName" else ()),
    ]
    return {name: value for name, value in filled.items() if name not in gone}


def _defaulted_port(port: Object, known: Mapping[str, int], *, has_node_port: bool) -> Object:
    filled: Object = {"protocol": "TCP", "port": 0} | {name: value for name, value in port.items() if value}
    filled.setdefault("targetPort", filled["port"])
    if former := known.get(filled.get("name", "")):
        filled.setdefault("nodePort", former)
    return filled if has_node_port else {name: value for name, value in filled.items() if name != "nodePort"}


def _has_health_check(spec: Spec) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


# --- validation -------------------------------------------------------------------------------------------------------


def _address_errors(spec: Spec, before: Spec) -> Iterator[FieldError]:
    """Errors of the fields that allocation reads."""
    addresses, former = spec.get("clusterIPs") or [], before.get("clusterIPs") or []
    for index, family in enumerate(spec.get("ipFamilies") or ()):
        if family not in _FAMILIES:
            yield not_supported(f"spec.ipFamilies[{index}]", family, _FAMILIES)
    for index, address in enumerate(addresses if addresses != [HEADLESS] else ()):
        yield from invalid(f"spec.clusterIPs[{index}]", address, formats.address_problems(address, canonical=False))
    if former and spec["type"] != "ExternalName" and addresses[:1] != former[:1]:
        yield error("FieldValueInvalid", "spec.clusterIPs[0]", "may not change once set", value=addresses)


def _spec_errors(spec: Spec) -> Iterator[FieldError]:
    ports, is_headless = spec.get("ports") or (), spec.get("clusterIP") == HEADLESS
    if not ports and spec["type"] != "ExternalName" and not is_headless:
        yield error("FieldValueRequired", "spec.ports")
    if spec["type"] == "ExternalName" and not spec.get("externalName"):
        yield error("FieldValueRequired", "spec.externalName")
    names = [port.get("name", "") for port in ports]
    for index, port in enumerate(ports):
        field, name = f"spec.ports[{index}]", names[index]
        if name and name in names[:index]:
            yield error("FieldValueDuplicate", f"{field}.name", value=name)
        yield from port_errors(port, field, needs_name=len(ports) > 1)
        if isinstance(target := port["targetPort"], int):
            yield from port_range_errors(target, f"{field}.targetPort")
    yield from labels_errors(spec.get("selector") or {}, "spec.selector")
    for field, known in _CHOICES.items():
        if (value := spec.get(field)) is not None and value not in known:
            yield not_supported(f"spec.{field}", value, known)
