"""Services: defaults, cluster IPs and node ports, validation.

``status`` is validated in full, as kube-apiserver v1.36 does (``pkg/apis/core/validation``); ``spec`` only in what
Zoneward and kube-proxy read. Addresses and ports are allocated in order, starting above the part that kube-apiserver
keeps for clients that name theirs (KEP-3070, KEP-3668). The cluster is always dual-stack, IPv4 first.
"""

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_network
from typing import Any, Final

from zoneward.kube import formats
from zoneward.kube.names import HEADLESS, TOPOLOGY_AWARE_HINTS_ANNOTATION, TOPOLOGY_MODE_ANNOTATION
from zoneward.kube.objects import Service, ServiceSpec
from zoneward.kube.validation import (
    PROTOCOLS,
    FieldError,
    error,
    invalid,
    labels_errors,
    not_supported,
    validate_traffic_distribution,
)
from zoneward.sandbox.server.kinds import Object, ObjectReader, Strategy

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
_PORT: Final = "must be between 1 and 65535, inclusive"
_AFFINITY_SECONDS: Final = 10800
"""How long a client stays with its endpoint."""


class ServiceStrategy(Strategy):
    """The keyword arguments are kube-apiserver's gates of these names."""

    name_problems = staticmethod(formats.label_problems)

    def __init__(
        self, *, service_traffic_distribution: bool = True, prefer_same_traffic_distribution: bool = True
    ) -> None:
        self._has_distribution = service_traffic_distribution
        self._has_same = prefer_same_traffic_distribution
        self._taken: dict[Any, str] = {}
        """The addresses and ports that Services have, and whose they are (UID)."""
        self._next = {"IPv4": 257, "IPv6": 257, "port": 86}
        """The index of the value to try next."""

    def default(self, new: Object, old: Object | None = None) -> None:
        if old is not None and new.get("spec") == old.get("spec") and new.get("status") == old.get("status"):
            new["spec"] = dict(old["spec"])
            return
        spec = new["spec"] = _defaulted(new.get("spec") or {})
        new["status"] = _defaulted_status(new.get("status") or {}, spec["type"])
        if old is not None:
            _keep_allocated(spec, old["spec"])
            _drop_with_type(spec, old["spec"])
        elif spec.get("clusterIP"):
            spec.setdefault("clusterIPs", [spec["clusterIP"]])

    def prepare_create(self, new: Object, objects: ObjectReader) -> None:
        self.prepare_update(new, {"spec": {}, "status": {"loadBalancer": {}}}, objects)

    def prepare_update(self, new: Object, old: Object, objects: ObjectReader) -> None:
        new["status"] = old["status"]
        if old["spec"].get("type") == "LoadBalancer" != new["spec"].get("type"):
            new["status"] = new["status"] | {"loadBalancer": {}}
        if not self._has_distribution and "trafficDistribution" not in old["spec"]:
            new["spec"].pop("trafficDistribution", None)

    def validate_create(self, new: Object) -> Iterator[FieldError]:
        yield from _spec_errors(new)
        if (distribution := new["spec"].get("trafficDistribution")) is not None:
            service = Service(spec=ServiceSpec(traffic_distribution=distribution))
            yield from validate_traffic_distribution(service, prefer_same_traffic_distribution=self._has_same)

    def validate_status(self, new: Object, old: Object) -> Iterator[FieldError]:
        return _status_errors(new)

    # --- addresses and ports ------------------------------------------------------------------------------------------

    def allocate(self, new: Object, old: Object | None) -> list[FieldError]:
        spec, uid, before = new["spec"], new["metadata"]["uid"], {} if old is None else old["spec"]
        if errors := [*_address_errors(spec), *_change_errors(spec, before)]:
            return errors
        _choose_families(spec)
        if spec["type"] != "ExternalName" and spec.get("clusterIP") != HEADLESS:
            addresses = list(spec.get("clusterIPs") or ())
            errors += [each for address in addresses for each in self._ip_errors(address, addresses, uid)]
            addresses += [str(self._next_free(each)) for each in spec["ipFamilies"][len(addresses) :]]
            spec["clusterIP"], spec["clusterIPs"] = addresses[0], addresses
        # One number serves a port in all its protocols.
        numbers: dict[int, int] = {}
        if "ports" in spec:
            spec["ports"] = list(map(dict, spec["ports"]))
        for index, port in enumerate(spec.get("ports") or ()):
            if port.get("nodePort") and _is_external(spec):
                errors += self._port_errors(port["nodePort"], f"spec.ports[{index}].nodePort", uid)
            elif _has_node_ports(spec):
                port["nodePort"] = numbers.get(port["port"]) or self._next_free("port")
            numbers[port["port"]] = port.get("nodePort", 0)
        if _has_health_check(spec) and not spec.get("healthCheckNodePort"):
            spec["healthCheckNodePort"] = self._next_free("port")
        return errors

    def restore(self, new: Object, old: Object | None) -> list[FieldError]:
        spec, uid = new["spec"], new["metadata"]["uid"]
        others = self._taken.keys() - (set() if old is None else _held(old["spec"]))
        errors: list[FieldError] = []
        for value in _held(spec) & others:
            if isinstance(value, int):
                errors += self._port_errors(value, "spec.ports", uid)
            else:
                errors += self._ip_errors(str(value), spec["clusterIPs"], uid)
        return errors

    def on_stored(self, new: Object | None, old: Object | None) -> None:
        if old is not None:
            for value in _held(old["spec"]):
                self._taken.pop(value, None)
        if new is not None:
            self._taken |= dict.fromkeys(_held(new["spec"]), new["metadata"]["uid"])

    def _next_free(self, pool: str) -> Any:
        values = NODE_PORTS if pool == "port" else _NETWORKS[pool]
        size = len(NODE_PORTS) if pool == "port" else _NETWORKS[pool].num_addresses
        while (value := values[self._next[pool]]) in self._taken:
            self._next[pool] = (self._next[pool] + 1) % size
        self._next[pool] = (self._next[pool] + 1) % size
        return value

    def _ip_errors(self, address: str, addresses: list[str], uid: str) -> Iterator[FieldError]:
        value, problem = formats.parse_address(address), ""
        if value is None or value not in _NETWORKS[_family_of(address)]:
            problem = "the provided network does not match the current range"
        elif self._taken.get(value, uid) != uid:
            problem = "provided IP is already allocated"
        if problem:
            yield from invalid("spec.clusterIPs", addresses, [f"failed to allocate IP {address}: {problem}"])

    def _port_errors(self, number: int, field: str, uid: str) -> Iterator[FieldError]:
        if number not in NODE_PORTS:
            problem = "provided port is not in the valid range. The range of valid ports is 30000-32767"
            yield error("FieldValueInvalid", field, problem, value=number)
        elif self._taken.get(number, uid) != uid:
            yield error("FieldValueInvalid", field, "provided port is already allocated", value=number)


def _held(spec: Spec) -> set[Any]:
    """Addresses and ports that a Service has."""
    ips = [address for address in spec.get("clusterIPs") or () if address != HEADLESS]
    ports = [port.get("nodePort") for port in spec.get("ports") or ()]
    return {*map(formats.parse_address, ips), *ports, spec.get("healthCheckNodePort")} - {None, 0}


# --- defaults ---------------------------------------------------------------------------------------------------------


def _defaulted(spec: Object) -> Object:
    """``SetDefaults_Service``."""
    filled = {name: value for name, value in spec.items() if value not in (None, "", [], {})}
    type_ = filled.setdefault("type", "ClusterIP")
    if filled.setdefault("sessionAffinity", "None") == "None":
        filled.pop("sessionAffinityConfig", None)
    else:
        filled.setdefault("sessionAffinityConfig", {"clientIP": {"timeoutSeconds": _AFFINITY_SECONDS}})
    if ports := filled.get("ports"):
        filled["ports"] = [_defaulted_port(port) for port in ports]
    if _is_external(filled):
        filled.setdefault("externalTrafficPolicy", "Cluster")
    if type_ != "ExternalName":
        filled.setdefault("internalTrafficPolicy", "Cluster")
    if type_ == "LoadBalancer":
        filled.setdefault("allocateLoadBalancerNodePorts", True)
    if spec.get("trafficDistribution") == "":
        # Validation refuses it.
        filled["trafficDistribution"] = ""
    return filled


def _defaulted_port(port: Object) -> Object:
    filled = {name: value for name, value in port.items() if value or name in ("port", "appProtocol")}
    filled.setdefault("protocol", "TCP")
    if not filled.get("targetPort"):
        filled["targetPort"] = filled.setdefault("port", 0)
    return filled


def _defaulted_status(status: Object, type_: str) -> Object:
    filled: Object = {"loadBalancer": {}}
    if ingress := (status.get("loadBalancer") or {}).get("ingress"):
        filled["loadBalancer"] = {"ingress": [_defaulted_ingress(each, type_) for each in ingress]}
    return filled | ({"conditions": status["conditions"]} if status.get("conditions") else {})


def _defaulted_ingress(ingress: Object, type_: str) -> Object:
    filled = {name: value for name, value in ingress.items() if value or name == "ipMode"}
    if type_ == "LoadBalancer" and "ip" in filled and filled.get("ipMode") is None:
        filled["ipMode"] = "VIP"
    return filled


def _is_external(spec: Spec) -> bool:
    """Reached by node ports, a load balancer, or external IPs."""
    type_ = spec.get("type")
    return type_ in ("NodePort", "LoadBalancer") or (type_ == "ClusterIP" and bool(spec.get("externalIPs")))


def _has_node_ports(spec: Spec) -> bool:
    return bool(spec.get("type") == "NodePort" or spec.get("allocateLoadBalancerNodePorts"))


def _has_health_check(spec: Spec) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


# --- what an update keeps and drops -----------------------------------------------------------------------------------


def _keep_allocated(spec: dict[str, Any], before: Spec) -> None:
    """Addresses and ports that an update leaves out stay; a client may send ``clusterIP`` or ``clusterIPs``."""
    if "ExternalName" not in (spec["type"], before["type"]):
        is_new = spec.get("clusterIP", before.get("clusterIP")) != before.get("clusterIP")
        if is_new and spec.get("clusterIPs") in (None, before.get("clusterIPs")):
            spec["clusterIPs"] = [spec["clusterIP"]]
        for field in _ADDRESS_FIELDS:
            if field in before:
                spec.setdefault(field, before[field])
        if spec.get("ipFamilyPolicy") == "SingleStack":
            # Only this gives up the second family, with its address.
            for field in ("ipFamilies", "clusterIPs"):
                if field in spec and spec[field] == before.get(field):
                    spec[field] = spec[field][:1]
    if _has_node_ports(before) and _has_node_ports(spec):
        known = {port.get("name", ""): port.get("nodePort") for port in before.get("ports") or ()}
        used = {port.get("nodePort") for port in spec.get("ports") or ()}
        for port in spec.get("ports") or ():
            if (former := known.get(port.get("name", ""))) and former not in used:
                port.setdefault("nodePort", former)
    if _has_health_check(before) and _has_health_check(spec):
        spec.setdefault("healthCheckNodePort", before.get("healthCheckNodePort"))


def _drop_with_type(spec: dict[str, Any], before: Spec) -> None:
    """Fields that the type does not use go, unless the client changed them (``dropTypeDependentFields``)."""
    gone = [] if _is_external(spec) else ["externalTrafficPolicy"]
    if spec["type"] != "LoadBalancer":
        gone += ["allocateLoadBalancerNodePorts", "loadBalancerClass"]
    if not _has_health_check(spec):
        gone.append("healthCheckNodePort")
    if spec["type"] == "ExternalName":
        gone += [*_ADDRESS_FIELDS, "internalTrafficPolicy"]
    for field in gone:
        if spec.get(field) == before.get(field):
            spec.pop(field, None)
    if spec["type"] in ("ClusterIP", "ExternalName"):
        known = {port.get("nodePort") for port in before.get("ports") or ()}
        for port in spec.get("ports") or ():
            if port.get("nodePort") in known:
                port.pop("nodePort", None)


def _choose_families(spec: dict[str, Any]) -> None:
    """``ipFamilies`` and ``ipFamilyPolicy``, of a Service whose addresses are sound."""
    if spec["type"] == "ExternalName":
        return
    addresses = [address for address in spec.get("clusterIPs") or () if address != HEADLESS]
    families = list(spec.get("ipFamilies") or ())
    families = families + [_family_of(address) for address in addresses[len(families) :]] or [_FAMILIES[0]]
    is_free = spec.get("clusterIP") == HEADLESS and not spec.get("selector")
    policy = spec.setdefault("ipFamilyPolicy", "RequireDualStack" if is_free else "SingleStack")
    if len(families) == 1 and policy != "SingleStack":
        families.append(_FAMILIES[1 - _FAMILIES.index(families[0])])
    spec["ipFamilies"] = families


def _family_of(address: str) -> str:
    return "IPv6" if ":" in address else "IPv4"


# --- what is refused --------------------------------------------------------------------------------------------------


def _address_errors(spec: Spec) -> Iterator[FieldError]:
    """Of the fields that `_choose_families` and `ServiceStrategy.allocate` read."""
    addresses, policy = spec.get("clusterIPs") or [], spec.get("ipFamilyPolicy")
    for index, family in enumerate(spec.get("ipFamilies") or ()):
        if family not in _FAMILIES:
            yield not_supported(f"spec.ipFamilies[{index}]", family, _FAMILIES)
    if policy is not None and policy not in _CHOICES["ipFamilyPolicy"]:
        yield not_supported("spec.ipFamilyPolicy", policy, _CHOICES["ipFamilyPolicy"])
    for index, address in enumerate(addresses if addresses != [HEADLESS] else ()):
        yield from invalid(f"spec.clusterIPs[{index}]", address, formats.address_problems(address, canonical=False))


def _change_errors(spec: Spec, before: Spec) -> list[FieldError]:
    """The first address and family may not change."""
    is_headless = spec.get("clusterIP") == HEADLESS == before.get("clusterIP")
    if "ExternalName" in (spec["type"], before.get("type")) or is_headless:
        return []
    return [
        error("FieldValueInvalid", f"spec.{field}[0]", "may not change once set", value=spec.get(field) or [])
        for field in ("clusterIPs", "ipFamilies")
        if before.get(field) and (spec.get(field) or [])[:1] != before[field][:1]
    ]


def _spec_errors(new: Object) -> Iterator[FieldError]:
    spec: Spec = new["spec"]
    type_, ports, is_headless = spec["type"], spec.get("ports") or (), spec.get("clusterIP") == HEADLESS
    annotations = new["metadata"].get("annotations") or {}
    hints, mode = map(annotations.get, (TOPOLOGY_AWARE_HINTS_ANNOTATION, TOPOLOGY_MODE_ANNOTATION))
    if hints is not None and mode is not None and hints != mode:
        field = f"metadata.annotations[{TOPOLOGY_MODE_ANNOTATION}]"
        problem = f"must match annotations[{TOPOLOGY_AWARE_HINTS_ANNOTATION}] when both are specified"
        yield error("FieldValueInvalid", field, problem, value=mode)
    if not ports and type_ != "ExternalName" and not is_headless:
        yield error("FieldValueRequired", "spec.ports")
    if type_ in ("NodePort", "LoadBalancer") and is_headless:
        problem = f"may not be set to 'None' for {type_} services"
        yield error("FieldValueInvalid", "spec.clusterIPs[0]", problem, value=HEADLESS)
    if type_ == "ExternalName" and not spec.get("externalName"):
        yield error("FieldValueRequired", "spec.externalName")
    if type_ == "ExternalName" and spec.get("clusterIPs"):
        yield error("FieldValueForbidden", "spec.clusterIPs", "may not be set for ExternalName services")
    yield from _ports_errors(ports, type_)
    yield from labels_errors(spec.get("selector") or {}, "spec.selector")
    for field, known in _CHOICES.items():
        if (value := spec.get(field)) is not None and value not in known:
            yield not_supported(f"spec.{field}", value, known)


def _ports_errors(ports: Sequence[Object], type_: str) -> Iterator[FieldError]:
    names: set[str] = set()
    for index, port in enumerate(ports):
        field, name, protocol = f"spec.ports[{index}]", port.get("name", ""), port["protocol"]
        if not name and len(ports) > 1:
            yield error("FieldValueRequired", f"{field}.name")
        elif name:
            yield from invalid(f"{field}.name", name, formats.label_problems(name))
        if name and name in names:
            yield error("FieldValueDuplicate", f"{field}.name", value=name)
        names.add(name)
        if not 1 <= port["port"] <= 65535:
            yield from invalid(f"{field}.port", port["port"], [_PORT])
        if protocol not in PROTOCOLS:
            yield not_supported(f"{field}.protocol", protocol, sorted(PROTOCOLS))
        if not isinstance(target := port["targetPort"], str) and not 1 <= target <= 65535:
            yield from invalid(f"{field}.targetPort", target, [_PORT])
        if type_ == "ClusterIP" and port.get("nodePort"):
            problem = "may not be used when `type` is 'ClusterIP'"
            yield error("FieldValueForbidden", f"{field}.nodePort", problem)


def _status_errors(new: Object) -> Iterator[FieldError]:
    """Of the load balancer. kube-apiserver takes conditions as they come."""
    ingress = new["status"]["loadBalancer"].get("ingress") or ()
    if ingress and new["spec"].get("type") != "LoadBalancer":
        problem = "may only be used when `spec.type` is 'LoadBalancer'"
        yield error("FieldValueForbidden", "status.loadBalancer.ingress", problem)
        return
    for index, each in enumerate(ingress):
        field, address, mode = f"status.loadBalancer.ingress[{index}]", each.get("ip"), each.get("ipMode")
        if address:
            yield from invalid(f"{field}.ip", address, formats.address_problems(address, canonical=False))
            if mode not in ("Proxy", "VIP"):
                yield not_supported(f"{field}.ipMode", mode or "", ("Proxy", "VIP"))
        elif mode is not None:
            yield error("FieldValueForbidden", f"{field}.ipMode", "may not be specified when `ip` is not set")
        if name := each.get("hostname"):
            yield from invalid(f"{field}.hostname", name, formats.subdomain_problems(name))
            if formats.parse_address(name) is not None:
                yield from invalid(f"{field}.hostname", name, ["must be a DNS name, not an IP address"])
