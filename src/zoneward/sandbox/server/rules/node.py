"""Nodes: defaults, what admission adds, what is refused (upstream's ``pkg/apis/core/validation`` and
``TaintNodesByCondition``, v1.36).

Not judged: the annotation ``scheduler.alpha.kubernetes.io/preferAvoidPods``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any, Final

from zoneward.kube import formats, quantity
from zoneward.kube.validation import FieldError, error, invalid, not_supported
from zoneward.sandbox.server.kinds import Object, Rules, Surroundings
from zoneward.sandbox.server.rules import metadata

NOT_READY: Final = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
"""The taint that every new Node gets; a controller takes it away from one that is ready."""
EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_COUNTED: Final = frozenset(
    {
        "configmaps",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "services",
        "services.loadbalancers",
        "services.nodeports",
    }
)
SELECTABLE: Final = frozenset({"spec.unschedulable"})


def fields(node: Object) -> dict[str, str]:
    """What field selectors may ask for."""
    return {"spec.unschedulable": "true" if (node.get("spec") or {}).get("unschedulable") else "false"}


class NodeRules(Rules):
    name_problems = staticmethod(metadata.subdomain_name_problems)

    def default(self, new: Object, old: Object | None = None) -> None:
        spec = new.get("spec") or {}
        first, all_ = spec.get("podCIDR"), spec.get("podCIDRs")
        if first and (not all_ or all_[0] != first):
            new["spec"] = spec | {"podCIDRs": [first]}
        elif all_ and not first:
            new["spec"] = spec | {"podCIDR": all_[0]}
        status = new.get("status") or {}
        if status.get("capacity") and not status.get("allocatable"):
            new["status"] = status | {"allocatable": dict(status["capacity"])}

    def prepare_create(self, new: Object, surroundings: Surroundings) -> None:
        # Unlike that of other kinds, a new Node's status is kept: a kubelet may register with it.
        spec = _without_source(new.get("spec") or {})
        taints = spec.get("taints") or []
        if all((taint.get("key"), taint.get("effect")) != tuple(NOT_READY.values()) for taint in taints):
            taints = [*taints, dict(NOT_READY)]
        new["spec"] = spec | {"taints": taints}

    def prepare_update(self, new: Object, old: Object, surroundings: Surroundings) -> None:
        _take("status", new, old)
        new["spec"] = _without_source(new.get("spec") or {})

    def prepare_status(self, new: Object, old: Object, surroundings: Surroundings) -> None:
        _take("spec", new, old)

    def metadata_errors(self, new: Object) -> Iterable[FieldError]:
        return metadata.metadata_errors(new, name_problems=self.name_problems, is_namespaced=False)

    def metadata_update_errors(self, new: Object, old: Object) -> Iterable[FieldError]:
        return metadata.common_update_errors(new, old)

    def validate_create(self, new: Object) -> Iterator[FieldError]:
        spec = new.get("spec") or {}
        yield from _taints(spec.get("taints") or ())
        yield from _resources(new.get("status") or {})
        yield from _pod_cidrs(spec.get("podCIDRs") or [])

    def validate_update(self, new: Object, old: Object) -> Iterator[FieldError]:
        yield from metadata.metadata_errors(new, name_problems=self.name_problems, is_namespaced=False, old=old)
        spec, before = new.get("spec") or {}, old.get("spec") or {}
        taints = tuple(_taints(spec.get("taints") or ())) if spec.get("taints") != before.get("taints") else ()
        cidrs, known = spec.get("podCIDRs") or [], before.get("podCIDRs") or []
        yield from taints
        yield from _pod_cidrs(cidrs) if cidrs != known else ()
        yield from metadata.changed_metadata_errors(new, old)
        if known and cidrs != known:
            yield _forbidden("podCIDRs", 'node updates may not change podCIDR except from "" to valid')
        if before.get("providerID") and spec.get("providerID") != before["providerID"]:
            yield _forbidden("providerID", 'node updates may not change providerID except from "" to valid')
        yield from taints  # upstream looks at them again, here
        if (spec.get("externalID") or "") != (before.get("externalID") or ""):
            yield _forbidden("externalID", "may not be updated")

    def validate_status(self, new: Object, old: Object) -> Iterator[FieldError]:
        yield from metadata.changed_metadata_errors(new, old)
        status, before = new.get("status") or {}, old.get("status") or {}
        yield from _resources({name: each for name, each in status.items() if each != before.get(name)})
        addresses = status.get("addresses") or ()
        if addresses != before.get("addresses"):
            yield from _addresses(addresses)


def _take(part: str, new: Object, old: Object) -> None:
    new.pop(part, None)
    if part in old:
        new[part] = old[part]


def _without_source(spec: Object) -> Object:
    """Without ``configSource``, whose gate is off for good."""
    return {name: value for name, value in spec.items() if name != "configSource"} if "configSource" in spec else spec


def _forbidden(field: str, problem: str) -> FieldError:
    return error("FieldValueForbidden", f"spec.{field}", problem)


def _taints(taints: Iterable[Mapping[str, Any]]) -> Iterator[FieldError]:
    """Upstream's paths start with ``metadata``, where taints once were."""
    taken = set()
    for index, taint in enumerate(taints):
        field = f"metadata.taints[{index}]"
        key, value, effect = (taint.get(name) or "" for name in ("key", "value", "effect"))
        yield from invalid(f"{field}.key", key, formats.qualified_name_problems(key))
        yield from invalid(f"{field}.value", value, formats.label_value_problems(value))
        if not effect:
            yield error("FieldValueRequired", f"{field}.effect")
        elif effect not in EFFECTS:
            yield not_supported(f"{field}.effect", effect, EFFECTS)
        if (key, effect) in taken:
            shown = {"Key": key, "Value": value, "Effect": effect, "TimeAdded": taint.get("timeAdded")}
            rule = "taints must be unique by key and effect pair"
            yield error("FieldValueDuplicate", field, rule, value=shown)
        taken.add((key, effect))


def _resources(status: Mapping[str, Any]) -> Iterator[FieldError]:
    for field in ("capacity", "allocatable"):
        for name, written in (status.get(field) or {}).items():
            value = quantity.parse(written)
            if value < 0:
                yield from invalid(f"status.{field}.{name}", written, ["must be greater than or equal to 0"])
            if value.denominator != 1 and _is_counted(name):
                yield from invalid(f"status.{field}.{name}", written, ["must be an integer"])


def _is_counted(resource: str) -> bool:
    """Whether there are no parts of one: Kubernetes' own objects, and what others than Kubernetes define."""
    if "/" not in resource:
        return resource in _COUNTED
    is_foreign = "kubernetes.io/" not in resource and not resource.startswith("requests.")
    return is_foreign and not any(formats.qualified_name_problems(f"requests.{resource}"))


def _addresses(addresses: Iterable[Mapping[str, Any]]) -> Iterator[FieldError]:
    seen = []
    for index, address in enumerate(addresses):
        shown = {"Type": address.get("type") or "", "Address": address.get("address") or ""}
        if shown in seen:
            yield error("FieldValueDuplicate", f"status.addresses[{index}]", value=shown)
        seen.append(shown)


# --- ranges of addresses ----------------------------------------------------------------------------------------------


def _pod_cidrs(cidrs: Sequence[str]) -> Iterator[FieldError]:
    for index, cidr in enumerate(cidrs):
        yield from invalid(f"spec.podCIDRs[{index}]", cidr, cidr_problems(cidr))
    if len(cidrs) < 2:
        return
    versions = [_version(cidr) for cidr in cidrs]
    if None in versions:
        first = versions.index(None)
        reason = f"invalid CIDR[{first}]: <nil> (invalid CIDR address: {cidrs[first]})"
        detail = f"invalid PodCIDRs. failed to check with dual stack with error:{reason}"
        yield FieldError("InternalError", "spec.podCIDRs", f"Internal error: {detail}")
    if None in versions or sorted(map(int, filter(None, versions))) != [4, 6]:
        problem = "may specify no more than one CIDR for each IP family"
        yield from invalid("spec.podCIDRs", cidrs, [problem])


def cidr_problems(text: str) -> Iterator[str]:
    """A range of addresses, with nothing set beyond its prefix; at most one problem."""
    address, _, length = text.partition("/")
    parsed = formats.parse_address(address)
    if parsed is None or _version(text) is None:
        yield "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
    elif not _is_strict(address) or (len(length) > 1 and length.startswith("0")):
        yield "must not have leading 0s in IP or prefix length"
    elif isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        yield "must not have an IPv4-mapped IPv6 address"
    elif ip_network(f"{parsed}/{int(length)}", strict=False).network_address != parsed:
        yield "must not have bits set beyond the prefix length"


def _version(cidr: str) -> int | None:
    """4 or 6; None where it is no range of addresses at all."""
    address, _, length = cidr.partition("/")
    parsed = formats.parse_address(address)
    is_length = length.isascii() and length.isdecimal()
    return parsed.version if parsed is not None and is_length and int(length) <= parsed.max_prefixlen else None


def _is_strict(address: str) -> bool:
    try:
        ip_address(address)
    except ValueError:
        return False
    return True
