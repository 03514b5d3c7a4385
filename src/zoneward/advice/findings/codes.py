"""Every code that a finding may have. Codes are stable: a number is never used again for something else.

The hundreds are subjects, each a module beside this one: 1 nodes, 2 proxies, 3 settings, 4 services, 5 workloads,
6 slices. To add a code, add a line here and a section to ``docs/check.md``, and yield it in its subject's module.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from zoneward.advice.dropped_traffic import EMPTY_FIX
from zoneward.advice.json_value import JsonValue
from zoneward.kube.objects import ObjectKey

Severity = Literal["error", "warning", "info"]
SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "info")
"""The worst first."""
Need = Literal[
    "Nodes",
    "Pods",
    "EndpointSlices",
    "endpoints",
    "proxies",
    "workloads",
    "autoscalers",
    "volumes",
    "Leases",
    "policies",
]
"""What a check reads in addition to Services; without it the code counts as not checked. ``EndpointSlices`` are those
that a controller has made of Pods; ``endpoints`` are Pods, or slices with any manager.
"""
SPREAD_FIX: Final = "Spread the pods in proportion to the traffic of the zones (zoneward explain shows how many)."


class FindingObject(JsonValue, frozen=True, gc=False):
    """The object that a finding is about. ``namespace`` and ``name`` are empty for a kind that has none."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """``Service shop/cart``, ``Node worker-1``, ``Cluster``."""
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {name}" if name else self.kind


CLUSTER: Final = FindingObject("Cluster", "", "")
"""The object of a finding about the cluster as a whole."""


class Finding(JsonValue, frozen=True, gc=False, kw_only=True):
    """One thing that should change. ``message`` is the reason with its numbers, ``fix`` what to do, ``docs`` the
    section that explains the code. ``fix`` ends with the ``command``, which is empty where there is none.

    ``services`` are the Services that it affects, as ``namespace/name``, where it is about one of their other objects.
    """

    code: str
    severity: Severity
    object: FindingObject
    title: str
    message: str
    fix: str
    command: str = ""
    docs: str
    services: tuple[str, ...] = ()

    @property
    def affected(self) -> tuple[str, ...]:
        """The Services that it affects, also where it is about one."""
        about = self.object
        return self.services or ((f"{about.namespace}/{about.name}",) if about.kind == "Service" else ())


@dataclass(frozen=True, slots=True)
class Code:
    """A code and what all of its findings have in common. ``fix``, which ends with the ``command``, is for those that
    name no better one.

    ``lowered``: a finding that affects no Service that asks for zone aware routing is an ``info``.
    """

    code: str
    title: str
    fix: str
    needs: tuple[Need, ...] = ()
    severity: Severity = "warning"
    lowered: bool = False
    command: str = ""

    @property
    def docs(self) -> str:
        return f"docs/check.md#{self.code.lower()}"

    def finding(
        self,
        about: FindingObject,
        message: str,
        *,
        fix: str = "",
        command: str = "",
        services: Iterable[ObjectKey] = (),
        asks: bool = True,
    ) -> Finding:
        """A finding with this code. ``fix`` are the words before the ``command``. ``asks``: whether a Service that it
        affects asks for zone aware routing.
        """
        return Finding(
            code=self.code,
            severity=self.severity if asks or not self.lowered else "info",
            object=about,
            title=self.title,
            message=message,
            fix=fix + command or self.fix,
            command=command if fix or command else self.command,
            docs=self.docs,
            services=tuple("/".join(key) for key in services),
        )


# --- 1: nodes ---------------------------------------------------------------------------------------------------------

_LABEL_NODE: Final = "kubectl label node NODE topology.kubernetes.io/zone=ZONE"
NODE_WITHOUT_ZONE: Final = Code(
    "ZW101",
    "A node has no zone",
    f"Label the node with its zone: {_LABEL_NODE}",
    needs=("Nodes",),
    severity="error",
    command=_LABEL_NODE,
)
ONE_ZONE: Final = Code(
    "ZW102",
    "All nodes are in one zone",
    "Add nodes in another zone. In one zone there is no traffic between zones to avoid.",
    needs=("Nodes",),
)
SKEWED_ZONES: Final = Code(
    "ZW103",
    "Zones differ in size",
    "Give each zone as much allocatable CPU, or each Service pods in proportion to the CPU of the zones.",
    needs=("Nodes",),
)
NODE_WITHOUT_CPU: Final = Code(
    "ZW104",
    "A node reports no allocatable CPU",
    "Let the kubelet of the node report status.allocatable.cpu.",
    needs=("Nodes",),
)
NO_READY_NODE: Final = Code(
    "ZW105",
    "No ready node counts",
    "Get nodes ready that are no control plane nodes.",
    needs=("Nodes",),
    severity="error",
)

# --- 2: proxies -------------------------------------------------------------------------------------------------------

PROXY_IGNORES_HINTS: Final = Code(
    "ZW201",
    "The proxy of a node ignores hints",
    "Run a proxy on the node that honors hints: kube-proxy 1.31 or later, or zoneward proxy.",
    needs=("Nodes", "proxies"),
    severity="error",
)
PROXY_IGNORES_SETTING: Final = Code(
    "ZW202",
    "Proxies do not honor what a Service asks for",
    "Upgrade the proxies, or ask for something that all of them honor.",
    needs=("Nodes", "proxies"),
)
PROXY_SKEW: Final = Code(
    "ZW203",
    "Proxies differ in what they honor",
    "Run proxies of one kind and version on all nodes.",
    needs=("Nodes", "proxies"),
    lowered=True,
)

# --- 3: settings ------------------------------------------------------------------------------------------------------

MISSPELT_VALUE: Final = Code(
    "ZW301",
    "A value is misspelt",
    "Write the value as it is meant. Letters and their case must be equal.",
    severity="error",
)
UNKNOWN_VALUE: Final = Code(
    "ZW302",
    "A value is unknown",
    "Use a value that is known, or remove the setting. It counts as not set.",
    severity="error",
)
DEPRECATED_SETTING: Final = Code("ZW303", "A setting is deprecated", "Use what has taken its place.")
MISSPELT_ANNOTATION: Final = Code(
    "ZW304",
    "The name of an annotation is misspelt",
    "Rename the annotation. Nobody reads it as it is.",
    severity="error",
)
TWO_SETTINGS: Final = Code("ZW305", "A Service has two settings", "Keep the one that is meant, and remove the other.")
ONLY_ZONEWARD: Final = Code(
    "ZW306",
    "Only Zoneward's controller knows a setting, and it does not run the Service",
    "Run zoneward controller --overlay (Kubernetes 1.36 or newer), adopt the Service (zoneward adopt), or ask for a"
    " setting of Kubernetes: PreferSameZone.",
    needs=("EndpointSlices",),
)

# --- 4: services ------------------------------------------------------------------------------------------------------

TOO_FEW_ENDPOINTS: Final = Code(
    "ZW401",
    "A Service is too small",
    "Add pods: at least one ready pod in each zone, or as many as the message says. Or remove the setting.",
    needs=("Nodes",),
)
WOULD_OVERLOAD: Final = Code(
    "ZW402",
    "What a Service asks for overloads pods",
    SPREAD_FIX.removesuffix(".") + ", or ask for Auto.",
    needs=("Nodes",),
)
ZONE_WITHOUT_ENDPOINT: Final = Code(
    "ZW403",
    "A zone has no endpoint of a Service",
    "Spread the pods over all zones with a topology spread constraint.",
    needs=("Nodes",),
)
BYPASSED: Final = Code(
    "ZW404",
    "Another field of a Service keeps its setting from working",
    "Remove the setting, or the field that the message names.",
)
ENDPOINT_WITHOUT_ZONE: Final = Code(
    "ZW405",
    "An endpoint of a Service has no zone",
    "Label the nodes of its pods with their zone; give slices that you write a zone for each endpoint.",
    needs=("Nodes",),
)
DROPPED: Final = Code(
    "ZW406",
    "Traffic to a Service is dropped",
    "Get an endpoint ready for all of its traffic.",
    needs=("endpoints",),
    severity="error",
)
NO_ENDPOINT: Final = Code("ZW407", "A Service has no endpoint", EMPTY_FIX, needs=("endpoints",))

# --- 5: workloads -----------------------------------------------------------------------------------------------------

_WORKLOADS: Final[tuple[Need, ...]] = ("Nodes", "workloads")
NO_SPREAD: Final = Code(
    "ZW501",
    "Nothing spreads the pods of a workload over zones",
    "Add a topology spread constraint with topologyKey topology.kubernetes.io/zone and maxSkew 1 to its pod template.",
    needs=_WORKLOADS,
    lowered=True,
)
AFFINITY_TO_ZONE: Final = Code(
    "ZW502",
    "Required affinity keeps the pods of a workload out of zones",
    "Let the node selector, node affinity or pod affinity of its pod template allow all zones.",
    needs=_WORKLOADS,
    lowered=True,
)
VOLUME_IN_ZONE: Final = Code(
    "ZW503",
    "A volume keeps pods of a workload in a zone",
    "Use storage that all zones can mount, or a StatefulSet with a volume for each pod and pods in all zones.",
    needs=(*_WORKLOADS, "volumes"),
    lowered=True,
)
AUTOSCALER_SEES_MEAN: Final = Code(
    "ZW504",
    "An autoscaler sees the mean while one zone is hot",
    "Spread the pods in proportion to the traffic of the zones, lower the autoscaler's target, or run a workload with"
    " its own autoscaler in each zone.",
    needs=(*_WORKLOADS, "autoscalers"),
)

# --- 6: slices --------------------------------------------------------------------------------------------------------

HINTS_VOID_BY_OTHERS: Final = Code(
    "ZW601",
    "Slices of another manager void the hints of a Service",
    "Delete the slices of the other manager, or let it set hints for every endpoint.",
)
TWO_WRITERS: Final = Code(
    "ZW602",
    "Two controllers write the slices of a Service",
    "Let one of them write: see which one should, and delete the slices of the other.",
    severity="error",
)
HINTS_OVERLOAD: Final = Code(
    "ZW603",
    "Hints in force break the threshold",
    SPREAD_FIX.removesuffix(".") + ", or ask for Auto.",
    needs=("Nodes", "EndpointSlices", "proxies"),
)
SLICES_DIFFER_FROM_PODS: Final = Code(
    "ZW604",
    "Slices do not match the pods",
    "If it stays so, look at the log of the controller that writes them, and delete slices that nobody manages.",
    needs=("Nodes", "Pods", "EndpointSlices"),
)
INCOMPLETE_HINTS: Final = Code(
    "ZW605",
    "Some endpoints of a Service have no hints",
    "Find out why their controller left them out: proxies ignore all hints while one ready endpoint has none.",
    needs=("EndpointSlices",),
)
NO_HINTS: Final = Code(
    "ZW606",
    "A Service asks for hints, and its slices have none",
    "Look at the events of the Service and at the version of its controller: it does not act on the setting.",
    needs=("EndpointSlices",),
)
NOBODY_UPDATES: Final = Code(
    "ZW607",
    "Nobody updates the slices of a Service",
    "Start `zoneward controller`.",
    needs=("Leases",),
    severity="error",
)
_INSTALL_POLICY: Final = "zoneward plan -A -o overlay | kubectl apply -f -"
OVERLAY_NOT_APPLIED: Final = Code(
    "ZW608",
    "The API server does not set the hints of an overlay",
    f"Install the policy: {_INSTALL_POLICY}",
    needs=("EndpointSlices",),
    severity="error",
    command=_INSTALL_POLICY,
)
OVERLAY_POLICY: Final = Code(
    "ZW609",
    "The policy of an overlay is missing or of another version",
    f"Install the policy: {_INSTALL_POLICY}",
    needs=("policies",),
    severity="error",
    command=_INSTALL_POLICY,
)
NOT_IN_OVERLAY: Final = Code(
    "ZW610",
    "A Service asks for an overlay, and has no entry",
    "Start zoneward controller --overlay (docs/overlay.md), or install the entries of zoneward plan -o overlay.",
    needs=("policies",),
)
OVERRIDDEN: Final = Code(
    "ZW611",
    "An overlay overrides what a Service asks of Kubernetes",
    "Nothing has to be done. The built-in hints return when the Service leaves the overlay.",
    severity="info",
)

CODES: Final[Mapping[str, Code]] = {code.code: code for code in tuple(globals().values()) if isinstance(code, Code)}
"""By code, in their order: all that are defined above."""
