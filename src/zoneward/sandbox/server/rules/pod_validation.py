"""Judging a pod's spec as upstream's ``ValidatePodCreate`` (v1.36) does, in its order and words."""

import re
from collections.abc import Iterator
from typing import Final

from zoneward.kube import formats
from zoneward.kube.validation import FieldError
from zoneward.sandbox.server.kinds import Object
from zoneward.sandbox.server.rules import pod_formats
from zoneward.sandbox.server.rules.pod_containers import (
    container_errors,
    host_network_errors,
    image_errors,
    user_errors,
)
from zoneward.sandbox.server.rules.pod_diff import internal
from zoneward.sandbox.server.rules.pod_errors import (
    all_invalid,
    duplicate,
    forbidden,
    invalid,
    required,
    too_long,
    unsupported,
)
from zoneward.sandbox.server.rules.pod_resources import pod_resource_errors
from zoneward.sandbox.server.rules.pod_scheduling import (
    affinity_errors,
    label_errors,
    spread_errors,
    toleration_errors,
)
from zoneward.sandbox.server.rules.pod_volumes import volume_errors

MIRROR: Final = "kubernetes.io/config.mirror"
_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_RESTARTS: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTIONS: Final = ("PreemptLowerPriority", "Never")
_SECCOMP_TYPES: Final = ("Localhost", "RuntimeDefault", "Unconfined")
_CLAIM_SOURCES: Final = ("resourceClaimName", "resourceClaimTemplateName")
_SYSCTL: Final = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"


def creation_errors(pod: Object) -> Iterator[FieldError]:
    """What is wrong with a new pod, apart from its metadata."""
    spec = pod["spec"]
    yield from pod_errors(pod)
    if spec.get("ephemeralContainers"):
        yield forbidden("spec.ephemeralContainers", "cannot be set on create")
    if spec.get("nodeName") and spec.get("schedulingGates"):
        yield forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")


def pod_errors(pod: Object) -> Iterator[FieldError]:
    """What is wrong with a pod, new or changed: annotations that pods give a meaning, and the spec."""
    spec = pod["spec"]
    yield from annotation_errors(pod)
    yield from spec_errors(spec)
    if not spec.get("serviceAccountName"):
        for index, volume in enumerate(spec.get("volumes") or ()):
            for number, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
                if source.get("serviceAccountToken") is not None:
                    here = f"spec.volumes[{index}].projected.sources[{number}].serviceAccountToken"
                    yield forbidden(here, "must not be specified when serviceAccountName is not set")
    yield from image_errors(spec, "spec")


def annotation_errors(pod: Object) -> Iterator[FieldError]:
    annotations = pod["metadata"].get("annotations") or {}
    cost = annotations.get(_COST)
    if cost is not None and not (re.fullmatch(r"0|-?[1-9][0-9]{0,9}", cost) and -(1 << 31) <= int(cost) < 1 << 31):
        yield invalid(f"metadata.annotations[{_COST}]", cost, "must be a 32bit integer")
    if annotations.get(MIRROR) is not None and not pod["spec"].get("nodeName"):
        rule = "must set spec.nodeName if mirror pod annotation is set"
        yield invalid(f"metadata.annotations[{MIRROR}]", annotations[MIRROR], rule)


def spec_errors(spec: Object) -> Iterator[FieldError]:
    """``ValidatePodSpec``, of a spec that has its defaults."""
    volumes: dict[str, Object] = {}
    yield from volume_errors(spec.get("volumes") or [], "spec.volumes", volumes)
    yield from _claims(spec.get("resourceClaims") or [], "spec.resourceClaims")
    yield from container_errors(spec, "spec", volumes)
    yield from pod_resource_errors(spec, "spec.resources")
    yield from host_network_errors(spec, "spec")
    if spec["restartPolicy"] not in _RESTARTS:
        yield unsupported("spec.restartPolicy", spec["restartPolicy"], _RESTARTS)
    if spec["dnsPolicy"] not in _DNS_POLICIES:
        yield unsupported("spec.dnsPolicy", spec["dnsPolicy"], _DNS_POLICIES)
    yield from label_errors(spec.get("nodeSelector") or {}, "spec.nodeSelector")
    yield from _security(spec, "spec.securityContext")
    yield from affinity_errors(spec.get("affinity") or {}, "spec.affinity")
    yield from _dns_config(spec, "spec.dnsConfig")
    yield from _gates(spec)
    yield from spread_errors(spec.get("topologySpreadConstraints") or [], "spec.topologySpreadConstraints")
    if spec.get("hostUsers") is False and spec.get("hostNetwork"):
        yield forbidden("spec.hostNetwork", "when `hostUsers` is false")
    yield from _names(spec)
    yield from toleration_errors(spec.get("tolerations") or [], "spec.tolerations")
    yield from _host_aliases(spec.get("hostAliases") or [], "spec.hostAliases")
    if (preemption := spec.get("preemptionPolicy")) is not None and preemption not in _PREEMPTIONS:
        here = "spec.preemptionPolicy"
        yield unsupported(here, preemption, _PREEMPTIONS) if preemption else required(here)
    system = spec.get("os")
    if system is not None and system.get("name") not in ("linux", "windows"):
        name = system.get("name") or ""
        yield unsupported("spec.os", name, ("linux", "windows")) if name else required("spec.os.name")


def _claims(claims: list[Object], field: str) -> Iterator[FieldError]:
    names: set[str] = set()
    for index, claim in enumerate(claims):
        here, name = f"{field}[{index}]", claim.get("name") or ""
        if not name:
            yield required(f"{here}.name")
        elif name in names:
            yield duplicate(f"{here}.name", name)
        else:
            yield from all_invalid(f"{here}.name", name, formats.label_problems(name))
            names.add(name)
        sources = [claim[source] for source in _CLAIM_SOURCES if claim.get(source) is not None]
        if len(sources) != 1:
            rule = "at most one of {0} or {1} may be specified" if sources else "must specify one of: {0}, {1}"
            told = rule.format(*(f"`{source}`" for source in _CLAIM_SOURCES))
            yield invalid(here, internal(claim, "PodResourceClaim"), told)
        for source in _CLAIM_SOURCES:
            if (named := claim.get(source)) is not None:
                yield from all_invalid(f"{here}.{source}", named, formats.subdomain_problems(named))


def _names(spec: Object) -> Iterator[FieldError]:
    for field in ("serviceAccountName", "nodeName"):
        if name := spec.get(field):
            yield from all_invalid(f"spec.{field}", name, formats.subdomain_problems(name))
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline < 1 << 31:
        yield invalid("spec.activeDeadlineSeconds", deadline, pod_formats.range_problem(1, (1 << 31) - 1))
    for field in ("hostname", "subdomain"):
        if name := spec.get(field):
            yield from all_invalid(f"spec.{field}", name, formats.label_problems(name))
    if name := spec.get("hostnameOverride"):
        here = "spec.hostnameOverride"
        if spec.get("setHostnameAsFQDN"):
            yield forbidden(here, "may not be specified when setHostnameAsFQDN is true")
        if spec.get("hostNetwork"):
            yield forbidden(here, "may not be specified when hostNetwork is true")
        if formats.size(name) > 64:
            yield too_long(here, 64)
        yield from all_invalid(here, name, formats.subdomain_problems(name))


def _gates(spec: Object) -> Iterator[FieldError]:
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        condition = gate.get("conditionType") or ""
        here = f"spec.readinessGates[{index}].conditionType"
        yield from all_invalid(here, condition, formats.qualified_name_problems(condition))
    seen: set[str] = set()
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        here, name = f"spec.schedulingGates[{index}]", gate.get("name") or ""
        yield from all_invalid(here, name, formats.qualified_name_problems(name))
        if name in seen:
            yield duplicate(here, name)
        seen.add(name)


def _dns_config(spec: Object, field: str) -> Iterator[FieldError]:
    config = spec.get("dnsConfig")
    servers = (config or {}).get("nameservers") or []
    if spec["dnsPolicy"] == "None":
        if config is None:
            yield required(field, "must provide `dnsConfig` when `dnsPolicy` is None")
            return
        if not servers:
            rule = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            yield required(f"{field}.nameservers", rule)
            return
    if config is None:
        return
    if len(servers) > 3:
        yield invalid(f"{field}.nameservers", servers, "must not have more than 3 nameservers")
    for index, server in enumerate(servers):
        here = f"{field}.nameservers[{index}]"
        yield from all_invalid(here, server, formats.address_problems(server, canonical=False))
    searches = config.get("searches") or []
    if len(searches) > 32:
        yield invalid(f"{field}.searches", searches, "must not have more than 32 search paths")
    if formats.size(" ".join(searches)) > 2048:
        rule = "must not have more than 2048 characters (including spaces) in the search list"
        yield invalid(f"{field}.searches", searches, rule)
    for index, search in enumerate(searches):
        if search != ".":
            domain = search.removesuffix(".")
            here = f"{field}.searches[{index}]"
            yield from all_invalid(here, domain, pod_formats.search_domain_problems(domain))
    for index, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            yield required(f"{field}.options[{index}]", "must not be empty")


def _host_aliases(aliases: list[Object], field: str) -> Iterator[FieldError]:
    for index, alias in enumerate(aliases):
        address = alias.get("ip") or ""
        yield from all_invalid(f"{field}[{index}].ip", address, formats.address_problems(address, canonical=False))
        for number, name in enumerate(alias.get("hostnames") or ()):
            yield from all_invalid(f"{field}[{index}].hostnames[{number}]", name, formats.subdomain_problems(name))


def _security(spec: Object, field: str) -> Iterator[FieldError]:
    security = spec.get("securityContext") or {}
    for who in ("fsGroup", "runAsUser", "runAsGroup"):
        yield from user_errors(security.get(who), f"{field}.{who}")
    for index, group in enumerate(security.get("supplementalGroups") or ()):
        yield from user_errors(group, f"{field}.supplementalGroups[{index}]")
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        # Both live in the security context upstream, whatever the API's own path.
        rule = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield invalid(f"{field}.shareProcessNamespace", True, rule)
    names: set[str] = set()
    for index, sysctl in enumerate(security.get("sysctls") or ()):
        here, name = f"{field}.sysctls[{index}].name", sysctl.get("name") or ""
        if not name:
            yield required(here)
        elif len(name) > 253 or not re.search(_SYSCTL, name):
            yield invalid(here, name, f"must have at most 253 characters and match regex {_SYSCTL}")
        elif name in names:
            yield duplicate(here, name)
        names.add(name)
    if security.get("fsGroupChangePolicy") not in (None, "Always", "OnRootMismatch"):
        policy = security["fsGroupChangePolicy"]
        yield unsupported(f"{field}.fsGroupChangePolicy", policy, ("Always", "OnRootMismatch"))
    if (profile := security.get("seccompProfile")) is not None and profile.get("type") not in _SECCOMP_TYPES:
        kind = profile.get("type") or ""
        here = f"{field}.seccompProfile.type"
        if kind:
            yield unsupported(here, kind, _SECCOMP_TYPES)
        else:
            yield required(here, "type is required when seccompProfile is set")
