"""Findings 6xx: the EndpointSlices that exist, beside the plan and the Pods, and the policy of an overlay."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from zoneward.advice.findings import codes
from zoneward.advice.findings.cluster_view import ClusterView, ServiceView
from zoneward.advice.findings.codes import Code, Finding
from zoneward.advice.findings.services import overload_fix, overload_now
from zoneward.advice.shell_commands import shell_command
from zoneward.kube import names
from zoneward.kube.adoption_marks import has_selector_annotation, manager_of
from zoneward.kube.objects import Endpoint, EndpointIdentity, EndpointSlice, identity, is_ready
from zoneward.kube.overlay_objects import OVERLAY, VERSION, VERSION_ANNOTATION
from zoneward.routing.phrases import counted, listed
from zoneward.routing.request import requested_approach, topology_annotation
from zoneward.routing.rules import RuleLog
from zoneward.routing.selection.endpoint_selection import endpoints_of_all_ports
from zoneward.routing.zone_groups import group_of_slice
from zoneward.slices.decide import managers_of
from zoneward.slices.existing import approach_of_slice
from zoneward.slices.overlay import OverlayHints, is_in_overlay, with_overlay_hints
from zoneward.slices.plan import FamilyPlan, is_deleting, is_managed

_CONTROLLERS: Final = (names.BUILT_IN_MANAGER, names.MANAGER)
"""Managers that make slices of Pods. All others have endpoints from elsewhere."""


def slice_findings(view: ClusterView) -> Iterator[Finding]:
    """At most one finding of each code for a Service: that of its first address family that has one."""
    checks: tuple[tuple[Code, Callable[[ServiceView, FamilyPlan, ClusterView], str | None]], ...] = (
        # A Service that asks for nothing loses no hints.
        (codes.HINTS_VOID_BY_OTHERS, lambda service, family, _: family.void_hints if service.asks else None),
        (codes.TWO_WRITERS, _two_writers),
        (codes.HINTS_OVERLOAD, lambda service, family, _: overload_now(service, family)),
        (codes.SLICES_DIFFER_FROM_PODS, _difference),
        (codes.INCOMPLETE_HINTS, _incomplete),
        (codes.NO_HINTS, _no_hints),
        (codes.OVERLAY_NOT_APPLIED, _overlay_not_applied),
    )
    for service in view.services:
        for code, check in checks:
            if view.knows(*code.needs):
                messages = (check(service, family, view) for family in service.plan.families)
                message = next(filter(None, messages), None)
                if message is not None:
                    fix = overload_fix(service, _asked_for(service)) if code is codes.HINTS_OVERLOAD else ""
                    yield code.finding(service.object, message, fix=fix)
        if service.runs_zoneward and not view.is_led and view.knows(*codes.NOBODY_UPDATES.needs):
            yield _orphan(service)


def _asked_for(service: ServiceView) -> str | None:
    """The heuristic that the Service asks for as it is."""
    heuristic = requested_approach(service.service, service.given.cluster_state.configuration, RuleLog()).heuristic
    return heuristic.name if heuristic is not None else None


def is_of_controller(slice_: EndpointSlice) -> bool:
    """Whether a controller has made a slice of Pods, by its label."""
    return manager_of(slice_) in _CONTROLLERS


def _of_controllers(service: ServiceView, family: FamilyPlan) -> tuple[EndpointSlice, ...]:
    return tuple(filter(is_of_controller, service.given.slices_of(family.address_type)))


def _orphan(service: ServiceView) -> Finding:
    message = "its slices are Zoneward's, and no controller updates them: endpoints of pods that are gone stay"
    fix = command = ""
    if has_selector_annotation(service.service):
        fix = "Start zoneward controller, or give the Service back: "
        command = shell_command("zoneward", "release", names=("/".join(service.key),)) or "zoneward release"
    return codes.NOBODY_UPDATES.finding(service.object, message, fix=fix, command=command)


def _overlay_not_applied(service: ServiceView, family: FamilyPlan, view: ClusterView) -> str | None:
    """Slices whose hints are not those of the overlay: the policy is missing, another version, or fails."""
    overlay = view.overlays.get((*service.key, family.address_type))
    if overlay is None or overlay.hints is OverlayHints.REMOVE:
        return None
    slices = [slice_ for slice_ in service.given.slices_of(family.address_type) if is_in_overlay(slice_)]
    differing = [slice_ for slice_ in slices if with_overlay_hints(slice_, overlay) != slice_]
    if not differing:
        return None
    others = "" if len(differing) == len(slices) else f" of {len(slices)}"
    return (
        f"{counted(len(differing), 'EndpointSlice')}{others} with other hints than the ConfigMap"
        f" {names.OVERLAY_CONFIG_MAP} says (hints: {overlay.hints})"
    )


# --- writers ----------------------------------------------------------------------------------------------------------


def _two_writers(service: ServiceView, family: FamilyPlan, _view: ClusterView) -> str | None:
    """Both controllers have slices with endpoints, or two managers list the same endpoint."""
    slices = [slice_ for slice_ in service.given.slices_of(family.address_type) if slice_.endpoints]
    managers = managers_of(slices)
    if len(managers) < 2:
        return None
    manager_by_endpoint: dict[EndpointIdentity, str | None] = {}
    twice: set[EndpointIdentity] = set()
    writers: set[str | None] = set()
    for slice_ in slices:
        manager = manager_of(slice_)
        for endpoint in slice_.endpoints or ():
            key = identity(endpoint)
            other = manager_by_endpoint.setdefault(key, manager)
            if other != manager:
                twice.add(key)
                writers.update((manager, other))
    if twice:
        who = " and ".join(sorted(writer or "nobody named" for writer in writers))
        return f"{counted(len(twice), 'endpoint')} in slices of {who}: proxies take either copy"
    if set(_CONTROLLERS) <= set(managers):
        return f"slices of {' and '.join(_CONTROLLERS)}"
    return None


# --- slices and Pods --------------------------------------------------------------------------------------------------


def _difference(service: ServiceView, family: FamilyPlan, _view: ClusterView) -> str | None:
    """Ready endpoints that only the Pods or only the slices have, and those in another zone."""
    if not is_managed(service.service) or is_deleting(service.service):
        return None
    planned = _ready(family.changes.after)
    listed_ = _ready(_of_controllers(service, family))
    missing = [_named(endpoint) for key, endpoint in planned.items() if key not in listed_]
    extra = [_named(endpoint) for key, endpoint in listed_.items() if key not in planned]
    moved = [
        _named(endpoint)
        for key, endpoint in planned.items()
        if key in listed_ and (listed_[key].zone or None) != endpoint.zone
    ]
    parts = (
        (missing, "ready pod", "missing in the slices"),
        (extra, "ready endpoint", "without such a ready pod"),
        (moved, "endpoint", "with another zone than the node of the pod"),
    )
    differences = [
        f"{counted(len(all_), noun)} {what} ({listed(tuple(sorted(all_)))})" for all_, noun, what in parts if all_
    ]
    return ", ".join(differences) or None


def _ready(slices: Iterable[EndpointSlice]) -> dict[EndpointIdentity, Endpoint]:
    return {
        identity(endpoint): endpoint for slice_ in slices for endpoint in slice_.endpoints or () if is_ready(endpoint)
    }


def _named(endpoint: Endpoint) -> str:
    target = endpoint.target_ref
    return target.name if target is not None and target.name else ", ".join(endpoint.addresses or ())


# --- hints ------------------------------------------------------------------------------------------------------------


def _has_hints(endpoint: Endpoint) -> bool:
    hints = endpoint.hints
    return hints is not None and bool(hints.for_zones or hints.for_nodes)


def _incomplete(service: ServiceView, family: FamilyPlan, _view: ClusterView) -> str | None:
    slices = _of_controllers(service, family)
    if any(group_of_slice(slice_) is not None for slice_ in slices):
        return None
    ready = [endpoint for endpoint in endpoints_of_all_ports(slices) if is_ready(endpoint)]
    without = [_named(endpoint) for endpoint in ready if not _has_hints(endpoint)]
    if not without or len(without) == len(ready):
        return None
    return f"{len(without)} of {counted(len(ready), 'ready endpoint')} without hints ({listed(tuple(sorted(without)))})"


def _no_hints(service: ServiceView, family: FamilyPlan, view: ClusterView) -> str | None:
    """Not for settings that the controller of the slices does not know, nor in an overlay: others are about these."""
    slices = _of_controllers(service, family)
    if family.cluster_state.overlay_in_use:
        return None
    if service.is_hypothetical or not family.decision.active or family.decision.has_slice_groups:
        return None
    if not any(map(is_ready, endpoints_of_all_ports(slices))) or any(
        _has_hints(endpoint) for slice_ in slices for endpoint in slice_.endpoints or ()
    ):
        return None
    planned: FamilyPlan | None = family
    if not any(approach_of_slice(slice_) is not None or manager_of(slice_) == names.MANAGER for slice_ in slices):
        as_built_in = view.cluster_state.configuration.as_upstream()
        planned = service.given.with_state(configuration=as_built_in).family(family.address_type)
    if planned is None or not any(
        _has_hints(endpoint) for slice_ in planned.changes.after for endpoint in slice_.endpoints or ()
    ):
        return None
    return f"{family.decision.accepted_message or family.decision.heuristic}: {managers_of(slices)[0]} sets no hints"


# --- 609 to 611: overlays ---------------------------------------------------------------------------------------------


def overlay_findings(view: ClusterView) -> Iterator[Finding]:
    """At most one about the policy, and one of each other code for a Service."""
    if view.overlays and view.knows(*codes.OVERLAY_POLICY.needs):
        message = _policy_message(view)
        if message is not None:
            services = sorted({(namespace, service) for namespace, service, _ in view.overlays})
            yield codes.OVERLAY_POLICY.finding(codes.CLUSTER, message, services=services)
    for service in view.services:
        keys = [(*service.key, family.address_type) for family in service.plan.families]
        entries = [view.overlays[key] for key in keys if key in view.overlays]
        if service.asks and not service.is_hypothetical and not entries and view.expects_overlay_of(service.service):
            message = f"the policy {OVERLAY} is installed, and the ConfigMap {OVERLAY} has no entry for it"
            yield codes.NOT_IN_OVERLAY.finding(service.object, message)
        setting = _built_in_setting(service)
        if setting is not None and any(entry.hints is not OverlayHints.REMOVE for entry in entries):
            message = f"hints are those of the overlay, and not those of {setting}"
            yield codes.OVERRIDDEN.finding(service.object, message)


def _policy_message(view: ClusterView) -> str | None:
    """What is wrong with the policy or its binding."""
    maps = f"{counted(len({namespace for namespace, _, _ in view.overlays}), 'ConfigMap')} {OVERLAY}"
    policy = next((policy for policy in view.policies if policy.metadata.name == OVERLAY), None)
    if policy is None:
        return f"there are {maps}, and no MutatingAdmissionPolicy {OVERLAY} that reads them"
    version = (policy.metadata.annotations or {}).get(VERSION_ANNOTATION)
    if version != VERSION:
        return f"the policy {OVERLAY} has version {version or 'none'}, and this Zoneward writes version {VERSION}"
    bindings = [binding for binding in view.policy_bindings if binding.spec.policy_name == OVERLAY]
    if not bindings:
        return f"nothing binds the policy {OVERLAY}: it has no effect"
    if not any(binding.spec.param_ref is not None and binding.spec.param_ref.name == OVERLAY for binding in bindings):
        return f"the binding of the policy {OVERLAY} does not read the ConfigMap {OVERLAY} (spec.paramRef)"
    return None


def _built_in_setting(service: ServiceView) -> str | None:
    """What the Service asks of the built-in controller, for a message."""
    distribution = service.service.spec.traffic_distribution
    if distribution in names.TRAFFIC_DISTRIBUTIONS:
        return f"trafficDistribution: {distribution}"
    annotation = topology_annotation(service.service)
    return "topology-mode: Auto" if annotation is not None and annotation[1] in ("Auto", "auto") else None
