"""Well-known labels, annotations and values, also of operators of databases.

Names that start with ``zoneward.dev`` are Zoneward's; all others are those of Kubernetes.
"""

from collections.abc import Mapping
from typing import Final

DEFAULT_NAMESPACE: Final = "default"

# Nodes and zones.
ZONE_LABEL: Final = "topology.kubernetes.io/zone"
REGION_LABEL: Final = "topology.kubernetes.io/region"
OS_LABEL: Final = "kubernetes.io/os"
WINDOWS: Final = "windows"
"""The value of `OS_LABEL` of a Node whose kube-proxy honors no hints."""
NODE_EXCLUDED_LABELS: Final = (
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
)
"""A Node with one of these labels, with any value, adds nothing to demand (KEP-2433 § Identifying Zones)."""
EKS_COMPUTE_TYPE_LABEL: Final = "eks.amazonaws.com/compute-type"
EKS_WITH_KUBE_PROXY: Final = ("fargate", "auto")
"""Values of `EKS_COMPUTE_TYPE_LABEL` of Nodes where EKS runs kube-proxy outside Pods."""
AKS_CLUSTER_LABEL: Final = "kubernetes.azure.com/cluster"
"""Of the Nodes of AKS. In a node pool without availability zones, their zone is the number of a fault domain."""
NODE_TYPE_LABEL: Final = "type"
VIRTUAL_KUBELET: Final = "virtual-kubelet"
"""The value of `NODE_TYPE_LABEL` of a Node that is no machine, such as a virtual node of AKS."""

# Services.
TOPOLOGY_AWARE_HINTS_ANNOTATION: Final = "service.kubernetes.io/topology-aware-hints"
"""The old annotation. Where it is present, even empty, it hides the new one, as upstream."""
TOPOLOGY_MODE_ANNOTATION: Final = "service.kubernetes.io/topology-mode"
SUBSETTING_ANNOTATION: Final = "endpointslice.kubernetes.io/subsetting"
HEADLESS: Final = "None"
"""``spec.clusterIP`` of a headless Service."""

AUTO_VALUES: Final = ("Auto", "auto")
DISABLED_VALUES: Final = ("Disabled", "disabled", "")
SUBSETTING_AUTO_VALUES: Final = ("Auto", "auto", "Prefer")
"""``Prefer`` is what the first version of KEP-2004 calls it."""
SUBSETTING_REQUIRE: Final = "Require"
SUBSETTING_DISABLED_VALUES: Final = ("Disabled", "disabled", "Disable", "Random")
"""KEP-2004 § Configuration says ``Disabled``, and § Feature Enablement and Rollback ``Disable``."""
PREFER_CLOSE: Final = "PreferClose"
PREFER_SAME_ZONE: Final = "PreferSameZone"
PREFER_SAME_NODE: Final = "PreferSameNode"
TRAFFIC_DISTRIBUTIONS: Final = (PREFER_CLOSE, PREFER_SAME_ZONE, PREFER_SAME_NODE)

# EndpointSlices.
SERVICE_NAME_LABEL: Final = "kubernetes.io/service-name"
MANAGED_BY_LABEL: Final = "endpointslice.kubernetes.io/managed-by"
HEADLESS_LABEL: Final = "service.kubernetes.io/headless"
PROXY_NAME_LABEL: Final = "service.kubernetes.io/service-proxy-name"
"""Of a Service that the proxy of this name serves, and no other."""
RESERVED_SLICE_LABELS: Final = (SERVICE_NAME_LABEL, MANAGED_BY_LABEL, HEADLESS_LABEL)
"""Labels of an EndpointSlice that its controller sets and never copies from the Service. Neither is the zone label,
except with current Kubernetes, which does not use it there."""
TRIGGER_TIME_ANNOTATION: Final = "endpoints.kubernetes.io/last-change-trigger-time"
BUILT_IN_MANAGER: Final = "endpointslice-controller.k8s.io"

# Zoneward.
DOMAIN: Final = "zoneward.dev"
ANONYMIZED_OWNER: Final = ("Owner", "example.com/v1")
"""Kind and apiVersion in an anonymized snapshot of an owner whose kind is not public."""
MANAGER: Final = "endpointslice-controller.zoneward.dev"
APPROACH_ANNOTATION: Final = "zoneward.dev/approach"
"""On an EndpointSlice: ``<approach>/<heuristic>`` in force when it was written. Absent: cluster-wide."""
SUSPENDED_PREFIX: Final = "Suspended/"
"""Prefix of the approach of slices whose hints are suspended, because data about Nodes is missing."""
ZONES_ANNOTATION: Final = "zoneward.dev/zones"
"""On an EndpointSlice that several zones consume: these zones, with weights if they differ (``a=0.75,b=0.25``)."""
ZONE_WEIGHTS_ANNOTATION: Final = "zoneward.dev/zone-weights"
"""On one EndpointSlice of an address family: `zoneward.kube.zone_weights`."""
SUBSETTING_ALGORITHM_ANNOTATION: Final = "zoneward.dev/subsetting-algorithm"
STARTING_THRESHOLD_ANNOTATION: Final = "zoneward.dev/starting-threshold"
"""On a Service: endpoints per zone at which subsetting starts."""
HINTS_THRESHOLD_ANNOTATION: Final = "zoneward.dev/hints-threshold"
"""On a Service: the overload below which hints of ``ProportionalZoneCPU`` start, as ``0.2`` or as ``20%``."""
MAX_OVERLOAD_ANNOTATION: Final = "zoneward.dev/max-overload"
"""On a Service: the overload that ``Balanced`` may cause at most, as ``0.2`` or as ``20%``."""
DEMAND_ANNOTATION: Final = "zoneward.dev/demand"
"""On a Service: the share of its traffic that starts in each zone: ``a=0.5,b=0.3,c=0.2``."""
OVERLAY_CONFIG_MAP: Final = "zoneward-overlay"
"""The ConfigMap of each namespace that holds the parameters of the overlay: `zoneward.slices.overlay`."""
OVERLAY_MARK: Final = "zoneward.dev/overlay"
"""An annotation of a Service, or a label of a namespace: whether it is in the overlay."""
OVERLAY_ENABLED: Final = "enabled"
OVERLAY_DISABLED: Final = "disabled"
"""Only as the annotation: it wins over everything else."""
MODE_ANNOTATION: Final = "zoneward.dev/mode"
"""On the Lease of the controller: the mode of the replica that leads."""
OVERLAY_MODE: Final = "overlay"
ACCEPTED_CONDITION: Final = "zoneward.dev/TrafficDistributionAccepted"
PROGRAMMED_CONDITION: Final = "zoneward.dev/TrafficDistributionProgrammed"
HONORED_CONDITION: Final = "zoneward.dev/TrafficDistributionHonored"
MEASURED_CONDITION: Final = "zoneward.dev/TrafficDemandMeasured"
REQUESTED_APPROACH_ANNOTATION: Final = "zoneward.dev/requested-approach"
"""On a Service: the approach that `PROGRAMMED_CONDITION` is about, such as ``Hints/ProportionalZoneCPU``; empty where
there is none. The controller writes it together with that condition, to know later what it has reported."""
MEASURED_DEMAND_ANNOTATION: Final = "zoneward.dev/measured-demand"
"""On a Service: the measured demand in force, in the format of `DEMAND_ANNOTATION`. The controller writes it together
with that condition, and reads it after a restart; nothing else does."""
COMPONENT_LABEL: Final = "app.kubernetes.io/component"
PROXY_COMPONENT: Final = "zoneward-proxy"
"""The component of the Lease in which the proxy of a node reports what it has programmed."""
PROGRAMMED_SERVICES_ANNOTATION: Final = "zoneward.dev/programmed-services"
PROGRAMMED_SLICES_ANNOTATION: Final = "zoneward.dev/programmed-slices"
"""On such a Lease: the resourceVersion up to which every Service, and every EndpointSlice, is in the kernel."""
NOT_PROGRAMMED_ANNOTATION: Final = "zoneward.dev/not-programmed"
"""On such a Lease: the Services that are not programmed at any version: ``shop/cart,shop/wishlist``."""
PROXY_NAME_ANNOTATION: Final = "zoneward.dev/service-proxy-name"
"""On such a Lease: the ``service.kubernetes.io/service-proxy-name`` of the Services that this proxy serves; absent for
Services without that label."""


# What shows that traffic bypasses the proxies of nodes.
MESH_LABELS: Final[Mapping[str, tuple[str, str]]] = {
    "security.istio.io/tlsMode": ("istio", "Istio"),
    "service.istio.io/canonical-name": ("istio", "Istio"),
    "istio.io/dataplane-mode": ("istio", "Istio"),
    "linkerd.io/control-plane-ns": ("linkerd", "Linkerd"),
    "kuma.io/sidecar-injected": ("kuma", "Kuma"),
    "consul.hashicorp.com/connect-inject-status": ("consul", "Consul"),
}
"""Labels of Pods that meshes inject their proxy into, by the name of the mesh."""
NO_MESH: Final = ("disabled", "none", "false")
"""Values of these labels."""
ISTIO_WAYPOINT: Final = "istio.io/use-waypoint"
"""A label or an annotation of a Service."""
NEG_ANNOTATION: Final = "cloud.google.com/neg"
NEG_OF_EVERY_SERVICE: Final = '{"ingress":true}'
"""GKE sets this on each new Service. A group exists only where an Ingress uses it: then it has a status."""
NEG_STATUS_ANNOTATION: Final = "cloud.google.com/neg-status"
NLB_TARGET_ANNOTATIONS: Final = (
    "service.beta.kubernetes.io/aws-load-balancer-nlb-target-type",
    "service.beta.kubernetes.io/aws-load-balancer-type",
)
NLB_OF_PODS: Final = ("ip", "nlb-ip")
"""Values of these annotations where the load balancer sends to Pods."""


# Labels by which operators of databases mark the Pod that leads.
LEADER_ROLES: Final = frozenset({"leader", "primary", "master"})
FOLLOWER_ROLES: Final = frozenset({"follower", "replica", "secondary", "slave", "standby"})
ROLE_LABELS: Final = frozenset(
    {
        "role",
        "spilo-role",
        "redis-role",
        "redisfailovers-role",
        "app.kubernetes.io/component",
        "cnpg.io/instanceRole",
        "k8s.mariadb.com/role",
        "kubeblocks.io/role",
        "kubedb.com/role",
        "mysql.oracle.com/cluster-role",
        "postgres-operator.crunchydata.com/role",
    }
)
"""Labels whose value is a role, in any case."""
ACTIVE_LABELS: Final = frozenset({"vault-active", "openbao-active"})
"""Labels that are ``true`` for the Pod that leads."""


def leader_label(labels: Mapping[str, str] | None) -> str | None:
    """The label that marks a Pod as the leader, such as ``role=master``; None without one."""
    for key, value in sorted((labels or {}).items()):
        if (key in ROLE_LABELS and value.lower() in LEADER_ROLES) or (key in ACTIVE_LABELS and value == "true"):
            return f"{key}={value}"
    return None


def follower_label(labels: Mapping[str, str] | None) -> str | None:
    """The label that marks a Pod as a follower, such as ``role=replica``; None without one."""
    for key, value in sorted((labels or {}).items()):
        if key in ROLE_LABELS and value.lower() in FOLLOWER_ROLES:
            return f"{key}={value}"
    return None
