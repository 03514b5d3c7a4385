"""Services: defaults, IP families, validation. Cluster IPs and node ports come from ``service_allocation``.

``status`` is validated in full, as kube-apiserver v1.36 does (``pkg/apis/core/validation``); ``spec`` only for the
common mistakes: types, ports, policies, addresses, fields that may not change.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from zoneward.sandbox.server.kinds import Object, ObjectReader
from zoneward.sandbox.server.strategies import metadata
from zoneward.sandbox.server.strategies.service_allocation import (
    WITH_NODE_PORTS,
    ServiceAllocator,
    Spec,
    family_of,
    needs_health_check,
    needs_node_ports,
)

_FAMILIES: Final = ("IPv4", "IPv6")
_FAMILY_POLICIES: Final = ("PreferDualStack", "RequireDualStack", "SingleStack")
_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_AFFINITIES: Final = ("ClientIP", "None")
_POLICIES: Final = ("Cluster", "Local")
_IP_MODES: Final = ("Proxy", "VIP")
_AFFINITY_SECONDS: Final = 10800
"""How long a client stays with its endpoint."""
_PORT_NUMBER: Final = "must be between 1 and 65535, inclusive"
_ADDRESS_FIELDS: Final = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")
_OF_LOAD_BALANCERS: Final = ("allocateLoadBalancerNodePorts", "loadBalancerClass")


class ServiceStrategy(metadata.MetadataStrategy):
    """The keyword arguments are kube-apiserver's gates of these names."""

    name_problems = staticmethod(metadata.label_name_problems)

    def __init__(
        self,
        allocator: ServiceAllocator | None = None,
        *,
        service_traffic_distribution: bool = True,
        prefer_same_traffic_distribution: bool = True,
    ) -> None:
        self._allocator = allocator or ServiceAllocator()
        self._has_distribution = service_traffic_distribution
        self._has_same = prefer_same_traffic_distribution

    def default(self, new: Object, old: Object | None = None) -> None:
        if old is not None and new.get("spec") == old.get("spec") and new.get("status") == old.get("status"):
            new["spec"] = dict(old["spec"])
            return
        spec = new["spec"] = _defaulted(new.get("spec") or {})
        new["status"] = _defaulted_status(new.get("status") or {}, spec["type"])

    # --- creating and changing ----------------------------------------------------------------------------------------

    def prepare_create(self, new: Object, objects: ObjectReader) -> None:
        new["status"] = {"loadBalancer": {}}
        self._drop_disabled(new, None)

    def validate_create(self, new: Object) -> Iterable[FieldError]:
        return self._spec_errors(new)

    def prepare_update(self, new: Object, old: Object, objects: ObjectReader) -> None:
        new["status"] = old["status"]
        if old["spec"].get("type") == "LoadBalancer" != new["spec"].get("type"):
            new["status"] = new["status"] | {"loadBalancer": {}}
        self._drop_disabled(new, old)

    def validate_update(self, new: Object, old: Object) -> Iterable[FieldError]:
        yield from _change_errors(new["spec"], old["spec"])
        yield from self._spec_errors(new)

    def prepare_status(self, new: Object, old: Object, objects: ObjectReader) -> None:
        new["spec"] = old["spec"]

    def validate_status(self, new: Object, old: Object) -> Iterable[FieldError]:
        return _status_errors(new)

    def _drop_disabled(self, new: Object, old: Object | None) -> None:
        spec = new["spec"]
        if spec.get("type") == "ExternalName" and spec.get("internalTrafficPolicy") in _POLICIES:
            del spec["internalTrafficPolicy"]
        if not self._has_distribution and (old is None or "trafficDistribution" not in old["spec"]):
            spec.pop("trafficDistribution", None)

    def _spec_errors(self, new: Object) -> Iterator[FieldError]:
        yield from _spec_errors(new)
        if (distribution := new["spec"].get("trafficDistribution")) is not None:
            yield from validate_traffic_distribution(
                Service(spec=ServiceSpec(traffic_distribution=distribution)),
                prefer_same_traffic_distribution=self._has_same,
            )

    # --- addresses and ports ------------------------------------------------------------------------------------------

    def allocate(self, new: Object, old: Object | None) -> Iterable[FieldError]:
        spec, before = new["spec"], None if old is None else old["spec"]
        if spec == before:
            return ()
        if before is not None:
            _keep_allocated(spec, before)
            _drop_with_type(spec, before)
        elif spec.get("clusterIP") and not spec.get("clusterIPs"):
            spec["clusterIPs"] = [spec["clusterIP"]]
        if errors := tuple(_address_errors(spec)):
            return errors
        _choose_families(spec)
        return self._allocator.allocate(new, old)

    def release(self, new: Object | None, old: Object) -> None:
        self._allocator.release(new, old)

    def restore(self, new: Object) -> Iterable[FieldError]:
        if new["spec"].get("clusterIP") and not new["spec"].get("clusterIPs"):
            new["spec"]["clusterIPs"] = [new["spec"]["clusterIP"]]
        return self._allocator.restore(new)


def service_fields(thing: Object) -> dict[str, str]:
    """The values that field selectors compare."""
    spec = thing.get("spec") or {}
    return {"spec.clusterIP": spec.get("clusterIP") or "", "spec.type": spec.get("type") or ""}


# --- defaults ---------------------------------------------------------------------------------------------------------


def _defaulted(spec: Object) -> Object:
    """``SetDefaults_Service``."""
    filled = {name: value for name, value in spec.items() if value not in (None, "", [], {})}
    type_ = filled.setdefault("type", "ClusterIP")
    if filled.setdefault("sessionAffinity", "None") == "None":
        filled.pop("sessionAffinityConfig", None)
    elif not filled.get("sessionAffinityConfig"):
        filled["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _AFFINITY_SECONDS}}
    if ports := filled.get("ports"):
        filled["ports"] = [_defaulted_port(port) for port in ports]
    if _is_reached_from_outside(filled):
        filled.setdefault("externalTrafficPolicy", "Cluster")
    if type_ != "ExternalName":
        filled.setdefault("internalTrafficPolicy", "Cluster")
    if type_ == "LoadBalancer":
        filled.setdefault("allocateLoadBalancerNodePorts", True)
    if spec.get("trafficDistribution") == "":
        # Validation refuses it.
        filled["trafficDistribution"] = ""
    return filled


def _is_reached_from_outside(spec: Spec) -> bool:
    """By node ports, a load balancer, or external IPs."""
    type_ = spec.get("type")
    return type_ in WITH_NODE_PORTS or (type_ == "ClusterIP" and bool(spec.get("externalIPs")))


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
    if conditions := status.get("conditions"):
        filled["conditions"] = conditions
    return filled


def _defaulted_ingress(ingress: Object, type_: str) -> Object:
    filled = {name: value for name, value in ingress.items() if value or name == "ipMode"}
    if type_ == "LoadBalancer" and "ip" in filled and filled.get("ipMode") is None:
        filled["ipMode"] = "VIP"
    return filled


# --- what an update keeps and drops -----------------------------------------------------------------------------------


def _keep_allocated(spec: dict[str, Any], before: Spec) -> None:
    """Addresses and ports that an update leaves out stay; a client may send ``clusterIP`` or ``clusterIPs``."""
    if "ExternalName" not in (spec["type"], before["type"]) and not spec.get("clusterIP") and before.get("clusterIP"):
        spec["clusterIP"] = before["clusterIP"]
    if spec.get("clusterIP") == before.get("clusterIP"):
        if not spec.get("clusterIPs") and "clusterIPs" in before:
            spec["clusterIPs"] = before["clusterIPs"]
    elif not spec.get("clusterIPs") or spec["clusterIPs"] == before.get("clusterIPs"):
        spec.pop("clusterIPs", None)
        if spec.get("clusterIP"):
            spec["clusterIPs"] = [spec["clusterIP"]]
    if spec["type"] != "ExternalName" != before["type"]:
        for field in ("ipFamilies", "ipFamilyPolicy"):
            if field not in spec and field in before:
                spec[field] = before[field]
    if spec.get("ipFamilyPolicy") == "SingleStack":
        # Only this gives up the second family, with its address.
        for field in ("clusterIPs", "ipFamilies"):
            if len(spec.get(field) or ()) > 1 and spec[field] == before.get(field):
                spec[field] = spec[field][:1]
    if needs_node_ports(before) and needs_node_ports(spec):
        known = {port.get("name", ""): port.get("nodePort", 0) for port in before.get("ports") or ()}
        used = {port.get("nodePort") for port in spec.get("ports") or ()}
        ports = [dict(port) for port in spec.get("ports") or ()]
        for port in ports:
            former = known.get(port.get("name", ""), 0)
            if former and not port.get("nodePort") and former not in used:
                port["nodePort"] = former
        spec["ports"] = ports
    if needs_health_check(before) and needs_health_check(spec) and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = before.get("healthCheckNodePort", 0)


def _drop_with_type(spec: dict[str, Any], before: Spec) -> None:
    """Fields that the new type does not use go, unless the client changed them (``dropTypeDependentFields``)."""
    gone: list[str] = []
    if before["type"] != "ExternalName" == spec["type"]:
        gone += _ADDRESS_FIELDS
    had_ports, has_ports = (each["type"] in WITH_NODE_PORTS for each in (before, spec))
    known = {port.get("nodePort") for port in before.get("ports") or ()}
    if had_ports and not has_ports and all(port.get("nodePort") in known | {None} for port in spec.get("ports") or ()):
        ports = spec.get("ports") or ()
        spec["ports"] = [{name: value for name, value in port.items() if name != "nodePort"} for port in ports]
    if needs_health_check(before) and not needs_health_check(spec):
        gone.append("healthCheckNodePort")
    if before["type"] == "LoadBalancer" != spec["type"]:
        gone += _OF_LOAD_BALANCERS
    if _is_reached_from_outside(before) and not _is_reached_from_outside(spec):
        gone.append("externalTrafficPolicy")
    for field in gone:
        if spec.get(field) == before.get(field):
            spec.pop(field, None)


def _choose_families(spec: dict[str, Any]) -> None:
    """``ipFamilies`` and ``ipFamilyPolicy``, of a Service whose addresses are sound."""
    if spec["type"] == "ExternalName":
        return
    addresses = [address for address in spec.get("clusterIPs") or () if address != HEADLESS]
    families = list(spec.get("ipFamilies") or ())
    families += [family_of(address) for address in addresses[len(families) :]]
    is_free = spec.get("clusterIP") == HEADLESS and not spec.get("selector")
    policy = spec.setdefault("ipFamilyPolicy", "RequireDualStack" if is_free else "SingleStack")
    families = families or [_FAMILIES[0]]
    if len(families) == 1 and policy != "SingleStack":
        families.append(_FAMILIES[1 - _FAMILIES.index(families[0])])
    spec["ipFamilies"] = families


# --- what is refused --------------------------------------------------------------------------------------------------


def _address_errors(spec: Spec) -> Iterator[FieldError]:
    """Of the fields that `_choose_families` and the allocator read."""
    if spec["type"] == "ExternalName":
        return
    families, policy = spec.get("ipFamilies") or [], spec.get("ipFamilyPolicy") or "SingleStack"
    addresses, first = spec.get("clusterIPs") or [], spec.get("clusterIP") or ""
    for index, family in enumerate(families):
        if family not in _FAMILIES:
            yield not_supported(f"spec.ipFamilies[{index}]", family, _FAMILIES)
    if policy not in _FAMILY_POLICIES:
        yield not_supported("spec.ipFamilyPolicy", policy, _FAMILY_POLICIES)
    if addresses and addresses[0] != first:
        yield error("FieldValueInvalid", "spec.clusterIPs", "first value must match `clusterIP`", value=addresses)
    for index, address in enumerate(addresses if addresses != [HEADLESS] else ()):
        for problem in formats.address_problems(address, canonical=False):
            yield error("FieldValueInvalid", f"spec.clusterIPs[{index}]", problem, value=address)
        if index < len(families) and family_of(address) != families[index]:
            problem = f"expected an {families[index]} value as indicated by `ipFamilies[{index}]`"
            yield error("FieldValueInvalid", f"spec.clusterIPs[{index}]", problem, value=address)
    for values, family_names in ((addresses, list(map(family_of, addresses))), (families, families)):
        if len(set(family_names)) < len(values):
            problem = "may specify no more than one IP for each IP family"
            yield error("FieldValueInvalid", "spec.clusterIPs", problem, value=values)
        elif policy == "SingleStack" and len(values) > 1:
            problem = "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified"
            yield from invalid("spec.ipFamilyPolicy", policy, [problem])


def _change_errors(spec: Spec, before: Spec) -> Iterator[FieldError]:
    """The first address and family may not change; the second may come and go."""
    is_headless = spec.get("clusterIP") == HEADLESS == before.get("clusterIP")
    if spec["type"] != "ExternalName" != before["type"] and not is_headless:
        for field in ("clusterIPs", "ipFamilies"):
            has, had = spec.get(field) or [], before.get(field) or []
            if had and (has[:1] != had[:1] or (len(has) == len(had) and has != had)):
                yield error("FieldValueInvalid", f"spec.{field}[0]", "may not change once set", value=has)


def _spec_errors(new: Object) -> Iterator[FieldError]:
    spec: Spec = new["spec"]
    type_, ports = spec["type"], spec.get("ports") or ()
    yield from _mode_errors(new["metadata"].get("annotations") or {})
    if not ports and type_ != "ExternalName" and spec.get("clusterIP") != HEADLESS:
        yield error("FieldValueRequired", "spec.ports")
    if type_ in WITH_NODE_PORTS and spec.get("clusterIP") == HEADLESS:
        problem = f"may not be set to 'None' for {type_} services"
        yield error("FieldValueInvalid", "spec.clusterIPs[0]", problem, value=HEADLESS)
    if type_ == "ExternalName":
        if spec.get("clusterIPs"):
            yield error("FieldValueForbidden", "spec.clusterIPs", "may not be set for ExternalName services")
        if name := spec.get("externalName", "").removesuffix("."):
            yield from invalid("spec.externalName", name, metadata.subdomain_name_problems(name))
        else:
            yield error("FieldValueRequired", "spec.externalName")
    yield from _ports_errors(ports, type_)
    yield from labels_errors(spec.get("selector") or {}, "spec.selector")
    for index, address in enumerate(spec.get("externalIPs") or ()):
        yield from invalid(f"spec.externalIPs[{index}]", address, formats.address_problems(address, canonical=False))
    for field, known in (("sessionAffinity", _AFFINITIES), ("type", _TYPES), ("internalTrafficPolicy", _POLICIES)):
        if (value := spec.get(field)) is not None and value not in known:
            yield not_supported(f"spec.{field}", value, known)
    external = spec.get("externalTrafficPolicy", "")
    if _is_reached_from_outside(spec):
        if external not in _POLICIES:
            yield not_supported("spec.externalTrafficPolicy", external, _POLICIES)
    elif external:
        problem = "may only be set for externally-accessible services"
        yield error("FieldValueInvalid", "spec.externalTrafficPolicy", problem, value=external)


def _mode_errors(annotations: Mapping[str, str]) -> Iterator[FieldError]:
    hints, mode = map(annotations.get, (TOPOLOGY_AWARE_HINTS_ANNOTATION, TOPOLOGY_MODE_ANNOTATION))
    if hints is not None and mode is not None and hints != mode:
        field = f"metadata.annotations[{TOPOLOGY_MODE_ANNOTATION}]"
        problem = f"must match annotations[{TOPOLOGY_AWARE_HINTS_ANNOTATION}] when both are specified"
        yield error("FieldValueInvalid", field, problem, value=mode)


def _ports_errors(ports: Sequence[Object], type_: str) -> Iterator[FieldError]:
    names: set[str] = set()
    known: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        field, name, protocol = f"spec.ports[{index}]", port.get("name", ""), port["protocol"]
        if not name and len(ports) > 1:
            yield error("FieldValueRequired", f"{field}.name")
        elif name:
            yield from invalid(f"{field}.name", name, metadata.label_name_problems(name))
        if name and name in names:
            yield error("FieldValueDuplicate", f"{field}.name", value=name)
        names.add(name)
        if not 1 <= port["port"] <= 65535:
            yield error("FieldValueInvalid", f"{field}.port", _PORT_NUMBER, value=port["port"])
        if protocol not in PROTOCOLS:
            yield not_supported(f"{field}.protocol", protocol, sorted(PROTOCOLS))
        if not isinstance(target := port["targetPort"], str) and not 1 <= target <= 65535:
            yield error("FieldValueInvalid", f"{field}.targetPort", _PORT_NUMBER, value=target)
        if type_ == "ClusterIP" and port.get("nodePort"):
            problem = "may not be used when `type` is 'ClusterIP'"
            yield error("FieldValueForbidden", f"{field}.nodePort", problem)
        if (key := (protocol, port["port"])) in known:
            shown = {"Name": "", "Protocol": protocol, "AppProtocol": None, "Port": key[1], "TargetPort": 0}
            yield error("FieldValueDuplicate", field, value=shown | {"NodePort": 0})
        known.add(key)


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
            if mode not in _IP_MODES:
                yield not_supported(f"{field}.ipMode", mode or "", _IP_MODES)
        elif mode is not None:
            yield error("FieldValueForbidden", f"{field}.ipMode", "may not be specified when `ip` is not set")
        if name := each.get("hostname"):
            yield from invalid(f"{field}.hostname", name, metadata.subdomain_name_problems(name))
            if formats.parse_address(name) is not None:
                yield from invalid(f"{field}.hostname", name, ["must be a DNS name, not an IP address"])
