"""Findings 609 to 611: the policy of an overlay, and the Services that ask for it."""

from collections.abc import Iterator

from zoneward.advice.findings.cluster_view import ClusterView, ServiceView
from zoneward.advice.findings.codes import CLUSTER, NOT_IN_OVERLAY, OVERLAY_POLICY, OVERRIDDEN, Finding
from zoneward.kube import names
from zoneward.kube.overlay_objects import OVERLAY, VERSION, VERSION_ANNOTATION
from zoneward.routing.phrases import counted
from zoneward.routing.request import topology_annotation
from zoneward.slices.overlay import OverlayHints, is_selected


def overlay_findings(view: ClusterView) -> Iterator[Finding]:
    """At most one about the policy, and one of each other code for a Service."""
    if view.overlays and view.knows(*OVERLAY_POLICY.needs):
        message = _policy_message(view)
        if message is not None:
            services = sorted({(namespace, service) for namespace, service, _ in view.overlays})
            yield OVERLAY_POLICY.finding(CLUSTER, message, services=services)
    is_bound = any(binding.spec.policy_name == OVERLAY for binding in view.policy_bindings)
    for service in view.services:
        if is_bound and view.knows(*NOT_IN_OVERLAY.needs) and _is_missing(service, view):
            message = f"the policy {OVERLAY} is installed, and the ConfigMap {OVERLAY} has no entry for it"
            yield NOT_IN_OVERLAY.finding(service.object, message)
        setting = _built_in_setting(service)
        if setting is not None and _is_overlaid(service, view):
            yield OVERRIDDEN.finding(service.object, f"hints are those of the overlay, and not those of {setting}")


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


def _is_missing(service: ServiceView, view: ClusterView) -> bool:
    configuration = view.cluster_state.configuration
    asks = service.asks and not service.is_hypothetical
    return asks and is_selected(service.service, None, configuration) and not _entries(service, view)


def _is_overlaid(service: ServiceView, view: ClusterView) -> bool:
    return any(view.overlays[key].hints is not OverlayHints.REMOVE for key in _entries(service, view))


def _entries(service: ServiceView, view: ClusterView) -> list[tuple[str, str, str]]:
    keys = [(*service.key, family.address_type) for family in service.plan.families]
    return [key for key in keys if key in view.overlays]


def _built_in_setting(service: ServiceView) -> str | None:
    """What the Service asks of the built-in controller, for a message."""
    distribution = service.service.spec.traffic_distribution
    if distribution in names.TRAFFIC_DISTRIBUTIONS:
        return f"trafficDistribution: {distribution}"
    annotation = topology_annotation(service.service)
    return "topology-mode: Auto" if annotation is not None and annotation[1] in ("Auto", "auto") else None
