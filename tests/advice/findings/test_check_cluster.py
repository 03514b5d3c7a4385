import json
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace
from tests.advice.findings.viewing import (
    ZONES,
    a_deployment,
    a_stateful_set,
    a_view,
    an_autoscaler,
    built_in,
    managed_by,
    without_hints,
)
from tests.builders.structs import NAMESPACE, SERVICE, a_node, a_service, a_slice, an_endpoint, nodes_in, pods_in

from zoneward.advice.findings.check_cluster import Ignored, check_cluster
from zoneward.advice.findings.cluster_view import ClusterView
from zoneward.advice.findings.codes import CODES, Finding
from zoneward.kube import names
from zoneward.kube.adoption_marks import SELECTOR_ANNOTATION
from zoneward.kube.objects import (
    EndpointSlice,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    Service,
)
from zoneward.kube.overlay_objects import OVERLAY, VERSION, VERSION_ANNOTATION
from zoneward.kube.workload_objects import (
    AnnotatedMeta,
    ClaimSource,
    ClaimSpec,
    ClaimTemplate,
    ClaimTemplateMeta,
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
    ParamRef,
    PersistentVolume,
    PersistentVolumeClaim,
    PodAffinity,
    PodAffinityTerm,
    PodSelector,
    PolicyBindingSpec,
    TemplateAffinity,
    Volume,
    VolumeNodeAffinity,
    VolumeSpec,
    WeightedPodAffinityTerm,
    WorkloadMeta,
)
from zoneward.routing.configuration import Configuration, DemandSettings, DemandSource
from zoneward.slices.overlay import FamilyOverlay, OverlayHints

CONTROL_PLANE: Final = names.NODE_EXCLUDED_LABELS[0]
OVERLOADS: Final = ("ZW402", "ZW603")
EVEN: Final = dict.fromkeys(ZONES, 4)
NODES: Final = nodes_in(EVEN)
PODS: Final = pods_in(dict.fromkeys(ZONES, 3))
SAME_ZONE: Final = a_service(distribution=names.PREFER_SAME_ZONE)
OVERLAYS: Final = {(NAMESPACE, SERVICE, "IPv4"): FamilyOverlay(OverlayHints.ZONES)}
LOPSIDED: Final = pods_in({"a": 1, "b": 4, "c": 4})
"""The pod in zone a gets three times the load of a fair one."""
IN_ZONE_A: Final = NodeSelector(
    node_selector_terms=(
        NodeSelectorTerm(
            match_expressions=(NodeSelectorRequirement(key=names.ZONE_LABEL, operator="In", values=("a",)),)
        ),
    )
)


def own_affinity(key: str) -> TemplateAffinity:
    term = PodAffinityTerm(topology_key=key, label_selector=PodSelector(match_labels={"app": SERVICE}))
    return TemplateAffinity(pod_affinity=PodAffinity(required=(term,)))


def a_claim(name: str, volume: str = "volume-a") -> PersistentVolumeClaim:
    meta = WorkloadMeta(name=name, namespace=NAMESPACE)
    return PersistentVolumeClaim(metadata=meta, spec=ClaimSpec(volume_name=volume))


VOLUME_A: Final = PersistentVolume(
    metadata=WorkloadMeta(name="volume-a"),
    spec=VolumeSpec(node_affinity=VolumeNodeAffinity(required=IN_ZONE_A)),
)
CASES: Final[dict[str, Callable[[], ClusterView]]] = {
    "ZW101": lambda: a_view(nodes=(*NODES, a_node("bare", None))),
    "ZW102": lambda: a_view(nodes=nodes_in({"a": 4}), pods=pods_in({"a": 3})),
    "ZW103": lambda: a_view(nodes=nodes_in({"a": 8, "b": 4, "c": 4})),
    "ZW104": lambda: a_view(nodes=(*NODES[:2], a_node("node-c", "c", cpu=None))),
    "ZW105": lambda: a_view(nodes=(a_node(ready=False),)),
    "ZW201": lambda: a_view(proxies="kube-router"),
    "ZW202": lambda: a_view(proxies="kube-proxy-1.28"),
    "ZW203": lambda: a_view(proxies={"node-a": "kube-proxy-1.30"}),
    "ZW301": lambda: a_view(a_service("auot")),
    "ZW302": lambda: a_view(a_service("yes-please")),
    "ZW303": lambda: a_view(a_service(old="Auto")),
    "ZW304": lambda: a_view(a_service(annotations={"service.kubernetes.io/topology-aware-routing": "Auto"})),
    "ZW305": lambda: a_view(a_service("Auto", distribution=names.PREFER_SAME_ZONE)),
    "ZW306": lambda: a_view(a_service("PreferZone")),
    "ZW401": lambda: a_view(a_service("Auto"), pods=pods_in({"a": 1, "b": 1})),
    "ZW402": lambda: a_view(a_service("Auto"), pods=pods_in({"a": 2, "b": 1, "c": 1})),
    "ZW403": lambda: a_view(pods=pods_in({"a": 3, "b": 3})),
    "ZW404": lambda: a_view(a_service(distribution=names.PREFER_SAME_ZONE, internal="Local")),
    "ZW405": lambda: a_view(a_service("Auto"), nodes=(*NODES, a_node("bare", None, labels={CONTROL_PLANE: ""})),
                            pods=(*PODS, *unzoned())),
    "ZW406": lambda: a_view(a_service(internal="Local"), pods=PODS[:1]),
    "ZW407": lambda: a_view(pods=()),
    "ZW501": lambda: a_view(workloads=(a_deployment(topology_spread_constraints=None),)),
    "ZW502": lambda: a_view(workloads=(a_deployment(node_selector={names.ZONE_LABEL: "a"}),)),
    "ZW503": lambda: a_view(
        workloads=(a_deployment(volumes=(Volume(persistent_volume_claim=ClaimSource(claim_name="data")),)),),
        claims=(a_claim("data"),),
        volumes=(VOLUME_A,),
    ),
    "ZW504": lambda: a_view(pods=LOPSIDED, autoscalers=(an_autoscaler(),)),
    "ZW601": lambda: a_view(slices=(*built_in(SAME_ZONE, NODES, PODS), another())),
    "ZW602": lambda: a_view(slices=twice(SAME_ZONE)),
    "ZW603": lambda: a_view(pods=LOPSIDED),
    "ZW604": lambda: a_view(slices=built_in(SAME_ZONE, NODES, PODS[1:])),
    "ZW605": lambda: a_view(slices=[without_hints(slice_, first=2) for slice_ in built_in(SAME_ZONE, NODES, PODS)]),
    "ZW608": lambda: a_view(
        a_service("zoneward.dev/Balanced"),
        slices=[without_hints(slice_) for slice_ in built_in(SAME_ZONE, NODES, PODS)],
        overlays=OVERLAYS,
    ),
    "ZW606": lambda: a_view(slices=[without_hints(slice_) for slice_ in built_in(SAME_ZONE, NODES, PODS)]),
    "ZW607": lambda: a_view(slices=ours(SAME_ZONE), is_led=False),
    "ZW609": lambda: a_view(overlays=OVERLAYS),
    "ZW610": lambda: a_view(a_service("zoneward.dev/Balanced"), policies=(a_policy(),), policy_bindings=(a_binding(),)),
    "ZW611": lambda: a_view(overlays=OVERLAYS, policies=(a_policy(),), policy_bindings=(a_binding(),)),
}  # fmt: skip
"""A cluster for each code that has a finding with it."""


def a_policy(version: str | None = VERSION) -> MutatingAdmissionPolicy:
    annotations = {} if version is None else {VERSION_ANNOTATION: version}
    return MutatingAdmissionPolicy(metadata=AnnotatedMeta(name=OVERLAY, annotations=annotations))


def a_binding(parameter: str | None = OVERLAY) -> MutatingAdmissionPolicyBinding:
    reference = None if parameter is None else ParamRef(name=parameter)
    return MutatingAdmissionPolicyBinding(
        metadata=WorkloadMeta(name=OVERLAY), spec=PolicyBindingSpec(policy_name=OVERLAY, param_ref=reference)
    )


@pytest.mark.parametrize(
    ("policies", "bindings", "message"),
    [
        ((), (), "there are 1 ConfigMap zoneward-overlay, and no MutatingAdmissionPolicy zoneward-overlay that reads"),
        ((a_policy("2"),), (a_binding(),), "has version 2, and this Zoneward writes version 1"),
        ((a_policy(None),), (a_binding(),), "has version none, and this Zoneward writes version 1"),
        ((a_policy(),), (), "nothing binds the policy zoneward-overlay: it has no effect"),
        ((a_policy(),), (a_binding(None),), "does not read the ConfigMap zoneward-overlay (spec.paramRef)"),
        ((a_policy(),), (a_binding("other"),), "does not read the ConfigMap zoneward-overlay (spec.paramRef)"),
        ((a_policy(),), (a_binding(),), None),
    ],
)
def test_a_policy_that_does_not_fit_is_found(
    policies: tuple[MutatingAdmissionPolicy, ...],
    bindings: tuple[MutatingAdmissionPolicyBinding, ...],
    message: str | None,
) -> None:
    view = a_view(overlays=OVERLAYS, policies=policies, policy_bindings=bindings)
    messages = [finding.message for finding in check_cluster(view).findings if finding.code == "ZW609"]
    assert len(messages) == (message is not None)
    assert message is None or message in messages[0]


def test_a_service_with_an_entry_is_in_the_overlay() -> None:
    asking = a_service("zoneward.dev/Balanced")
    policies, bindings = (a_policy(),), (a_binding(),)
    with_entry = a_view(asking, overlays=OVERLAYS, policies=policies, policy_bindings=bindings)
    assert not findings_of(with_entry, "ZW610")
    assert not findings_of(a_view(a_service("Auto"), policies=policies, policy_bindings=bindings), "ZW610")
    assert not findings_of(a_view(asking), "ZW610")
    # One finding is enough: the overlay that could apply the setting is there.
    without_entry = a_view(asking, policies=policies, policy_bindings=bindings)
    assert findings_of(without_entry, "ZW610")
    assert not findings_of(without_entry, "ZW306")
    assert findings_of(a_view(asking), "ZW306")
    leaving = {(NAMESPACE, SERVICE, "IPv4"): FamilyOverlay(OverlayHints.REMOVE)}
    assert not findings_of(a_view(overlays=leaving), "ZW611")


def unzoned() -> tuple[Pod, ...]:
    (pod,) = pods_in({"d": 1})
    return (replace(pod, spec=replace(pod.spec, node_name="bare")),)


def another() -> EndpointSlice:
    return a_slice("other", an_endpoint("10.9.9.9", "a"), manager="mesh.example", owner=None)


def twice(service: Service) -> list[EndpointSlice]:
    slices = built_in(service, NODES, PODS)
    return [*slices, *(managed_by(names.MANAGER, slice_, name="own") for slice_ in slices)]


def ours(service: Service) -> list[EndpointSlice]:
    return [managed_by(names.MANAGER, slice_) for slice_ in built_in(service, NODES, PODS)]


def findings_of(view: ClusterView, code: str) -> list[Finding]:
    return [finding for finding in check_cluster(view).findings if finding.code == code]


def only(view: ClusterView, code: str) -> Finding:
    (finding,) = findings_of(view, code)
    return finding


def test_every_code_has_a_test_cluster() -> None:
    assert CASES.keys() == CODES.keys()


@pytest.mark.parametrize("code", CODES)
def test_each_test_cluster_has_its_finding(code: str) -> None:
    finding = findings_of(CASES[code](), code)[0]
    assert finding.severity == CODES[code].severity
    assert finding.message
    assert finding.fix
    assert finding.docs == f"docs/check.md#{code.lower()}"


@pytest.mark.parametrize("service", [SAME_ZONE, a_service("Auto"), a_service()], ids=["PreferSameZone", "Auto", "none"])
def test_a_clean_cluster_has_no_findings(service: Service) -> None:
    assert check_cluster(a_view(service, autoscalers=(an_autoscaler(),))).findings == ()


def test_the_page_has_a_section_for_each_code_with_its_title_and_severity() -> None:
    page = (Path(__file__).parents[3] / "docs/check.md").read_text()
    sections = dict(re.findall(r"^### (ZW\d+)\n\n(.*?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL))
    assert list(sections) == list(CODES)
    for code in CODES.values():
        assert sections[code.code].startswith(f"**{code.title}.** `{code.severity}`"), code
        assert "\nWhy: " in sections[code.code], code
        assert "\nFix: " in sections[code.code], code


# --- one by one -------------------------------------------------------------------------------------------------------


def test_control_plane_node_needs_no_zone() -> None:
    bare = (a_node("control", None, labels={CONTROL_PLANE: ""}), a_node("gone", None, ready=False))
    assert not findings_of(a_view(nodes=(*NODES, *bare)), "ZW101")


@pytest.mark.parametrize(
    ("distribution", "severity"), [(names.PREFER_SAME_ZONE, "info"), (names.PREFER_SAME_NODE, "warning")]
)
def test_proxies_that_differ_in_hints_for_nodes_matter_to_services_that_ask_for_them(
    distribution: str, severity: str
) -> None:
    """An upgrade from Kubernetes 1.33 to 1.34."""
    view = a_view(a_service(distribution=distribution), proxies={"node-a": "kube-proxy-1.33"})
    (finding,) = findings_of(view, "ZW203")
    assert finding.severity == severity
    assert "a Service with PreferSameNode is routed in different ways" in finding.message


def test_no_other_proxy_is_recommended_on_windows() -> None:
    (finding,) = findings_of(a_view(proxies={"node-a": "kube-proxy-windows"}), "ZW201")
    assert "Linux nodes" in finding.fix


def test_a_virtual_node_without_a_zone_is_named_and_has_no_proxy() -> None:
    """The built-in controller counts it; no finding is about its proxy."""
    virtual = a_node("virtual", None, cpu=10_000, labels={"type": "virtual-kubelet"})
    view = a_view(
        nodes=(*NODES, virtual), proxies=dict.fromkeys((node.metadata.name for node in NODES), "kube-proxy-1.30")
    )
    assert [finding.object.name for finding in findings_of(view, "ZW101")] == ["virtual"]
    assert not findings_of(view, "ZW203")


def test_zones_are_skewed_at_the_start_threshold() -> None:
    assert not findings_of(a_view(nodes=nodes_in({"a": 119, "b": 90, "c": 91})), "ZW103")
    assert findings_of(a_view(nodes=nodes_in({"a": 120, "b": 90, "c": 90})), "ZW103")


@pytest.mark.parametrize("source", ["cpu", "even"])
def test_node_without_cpu_is_found_with_any_demand(source: DemandSource) -> None:
    nodes = (*NODES[:2], a_node("node-c", "c", cpu=None))
    message = only(
        a_view(nodes=nodes, configuration=Configuration(demand=DemandSettings(source=source))), "ZW104"
    ).message
    assert ("nodes are counted" in message) is (source == "cpu")
    assert message.endswith("the built-in controller gives no hints")


def test_proxy_finding_names_what_is_ignored_and_the_nodes() -> None:
    view = a_view(a_service(distribution=names.PREFER_SAME_NODE), proxies={"node-a": "kube-proxy-1.33"})
    assert "kube-proxy 1.33 on 1 node ignores hints for nodes" in only(view, "ZW202").message
    groups = only(a_view(a_service(subsetting="Auto"), pods=pods_in(dict.fromkeys(ZONES, 6))), "ZW202")
    assert "ignores slice groups" in groups.message
    assert groups.fix.startswith("No kube-proxy reads slice groups. Ask for hints: PreferSameZone")


@pytest.mark.parametrize("pods", [3, 6])
def test_fix_keeps_the_setting_that_works(pods: int) -> None:
    both, spread = a_service("Auto", subsetting="Auto"), pods_in(dict.fromkeys(ZONES, pods))
    view = a_view(both, pods=spread)
    assert not findings_of(view, "ZW202")
    (two,) = findings_of(view, "ZW305")
    assert "topology-mode: Auto wins, as no proxy of the cluster reads slice groups" in two.message
    command = f"kubectl -n shop annotate --overwrite -- service cart {names.SUBSETTING_ANNOTATION}-"
    assert two.fix == f"To keep {names.TOPOLOGY_MODE_ANNOTATION} and remove the rest: {command}"
    assert not findings_of(a_view(both, pods=spread, proxies="zoneward"), "ZW305"), "they complete each other"


def test_old_cilium_gets_the_old_name() -> None:
    (two,) = findings_of(a_view(SAME_ZONE, proxies="cilium-1.18-service-topology"), "ZW202")
    assert two.fix == "Write PreferClose: it means the same, and these proxies honor it."
    close = a_service(distribution=names.PREFER_CLOSE)
    assert not findings_of(a_view(close, proxies="cilium-1.18-service-topology"), "ZW202")
    assert not findings_of(a_view(close, proxies="cilium-1.18-service-topology"), "ZW303")


def test_fix_for_cilium_names_its_setting() -> None:
    assert "enable-service-topology" in findings_of(a_view(proxies="cilium-1.18"), "ZW201")[0].fix
    assert "enable-service-topology" not in findings_of(a_view(proxies="kube-router"), "ZW201")[0].fix


@pytest.mark.parametrize(
    ("service", "meant"),
    [
        (a_service("auot"), "topology-mode=Auto"),
        (a_service("preferzone"), "topology-mode=PreferZone"),
        (a_service(old="AUTO"), "topology-aware-hints=Auto"),
        (a_service(distribution="PreferSamezone"), '"trafficDistribution":"PreferSameZone"'),
        (a_service(subsetting="AUTO"), "subsetting=Auto"),
        (a_service(subsetting="Auto", algorithm="local-wieghted"), "subsetting-algorithm=local-weighted"),
    ],
    ids=str,
)
def test_fix_corrects_a_misspelt_value(service: Service, meant: str) -> None:
    finding = only(a_view(service), "ZW301")
    assert meant in finding.command
    assert finding.fix == finding.command


@pytest.mark.parametrize("value", ["ProportionalZoneCPU", "zoneward.dev/Balanced"])
def test_a_value_that_only_zoneward_knows_is_not_misspelt_where_kubernetes_decides(value: str) -> None:
    view = a_view(a_service(value), configuration=Configuration().as_upstream())
    assert only(view, "ZW306").message.startswith(
        f"{names.TOPOLOGY_MODE_ANNOTATION}: {value}: {names.BUILT_IN_MANAGER}"
    )
    assert not findings_of(view, "ZW301") + findings_of(view, "ZW302")
    misspelt = a_view(a_service(value[:-1]), configuration=Configuration().as_upstream())
    assert only(misspelt, "ZW301").message.endswith(f"; {value} is")


def test_only_values_that_kubernetes_knows_are_offered_where_it_decides() -> None:
    (unknown,) = findings_of(a_view(a_service("nonsense"), configuration=Configuration().as_upstream()), "ZW302")
    assert unknown.fix == "Use one of Auto, Disabled; or remove the setting."


def test_settings_without_effect_are_checked_too() -> None:
    view = a_view(a_service("Auto", subsetting="Auto", distribution="nonsense", threshold="a lot"))
    assert [finding.message.partition(":")[0] for finding in findings_of(view, "ZW302")] == [
        "spec.trafficDistribution",
        names.HINTS_THRESHOLD_ANNOTATION,
    ]


def test_old_annotation_is_deprecated_if_all_proxies_read_the_new_one() -> None:
    assert findings_of(a_view(a_service(old="Auto"), proxies="kube-proxy-1.27"), "ZW303")
    assert not findings_of(a_view(a_service(old="Auto"), proxies={"node-a": "kube-proxy-1.26"}), "ZW303")


def test_prefer_close_is_deprecated_if_all_proxies_know_the_new_name() -> None:
    service = a_service(distribution=names.PREFER_CLOSE)
    assert findings_of(a_view(service), "ZW303")
    assert not findings_of(a_view(service, proxies={"node-a": "kube-proxy-1.33"}), "ZW303")
    old = tuple(a_node(f"node-{zone}", zone, kubelet="v1.33.4") for zone in ZONES)
    assert not findings_of(a_view(service, nodes=old), "ZW303"), "its API server refuses the new name"


def test_fixes_use_values_that_the_api_server_accepts() -> None:
    old = tuple(a_node(f"node-{zone}", zone, kubelet="v1.33.4") for zone in ZONES)
    (zoneward_only,) = findings_of(a_view(a_service("PreferZone"), nodes=old), "ZW306")
    assert zoneward_only.fix.endswith("a setting of Kubernetes: PreferClose.")
    (unknown,) = findings_of(a_view(a_service(distribution="nonsense"), nodes=old), "ZW302")
    assert unknown.fix.startswith("Use one of PreferClose; or")


def test_fix_for_two_settings_keeps_the_winning_one() -> None:
    (one,) = findings_of(a_view(a_service("Auto", distribution=names.PREFER_SAME_ZONE)), "ZW305")
    assert "wins" in one.message
    command = """kubectl -n shop patch -p '{"spec":{"trafficDistribution":null}}' -- service cart"""
    assert one.fix == f"To keep {names.TOPOLOGY_MODE_ANNOTATION} and remove the rest: {command}"
    (other,) = findings_of(a_view(a_service("unheard-of", distribution=names.PREFER_SAME_ZONE)), "ZW305")
    assert other.fix.startswith("To keep spec.trafficDistribution and remove the rest: kubectl -n shop annotate")


@pytest.mark.parametrize("value", ["Auto\n", "eu-1a=0.25," * 12])
def test_value_that_a_line_cannot_show_is_in_no_command(value: str) -> None:
    """A command with a part of it would set another value, and remove the whole one."""
    deprecated = a_service(annotations={names.TOPOLOGY_AWARE_HINTS_ANNOTATION: value})
    (finding,) = findings_of(a_view(deprecated), "ZW303")
    assert finding.fix == "Use what has taken its place."
    misspelt = a_service(annotations={names.DEMAND_ANNOTATION + "s": value})
    (finding,) = findings_of(a_view(misspelt), "ZW304")
    assert finding.fix == "Rename the annotation. Nobody reads it as it is."


def test_fix_for_three_settings_is_one_command() -> None:
    three = a_service("Auto", subsetting="Auto", distribution=names.PREFER_SAME_ZONE)
    (finding,) = findings_of(a_view(three, pods=pods_in(dict.fromkeys(ZONES, 3))), "ZW305")
    removed = {"metadata": {"annotations": {names.SUBSETTING_ANNOTATION: None}}, "spec": {"trafficDistribution": None}}
    assert finding.fix == f"To keep {names.TOPOLOGY_MODE_ANNOTATION} and remove the rest: {finding.command}"
    words = ["kubectl", "-n", "shop", "patch", "--type=merge", "-p"]
    assert shlex.split(finding.command) == [*words, json.dumps(removed, separators=(",", ":")), "--", "service", "cart"]


def test_disabled_setting_is_no_second_setting() -> None:
    assert not findings_of(a_view(a_service("Disabled", distribution=names.PREFER_SAME_ZONE)), "ZW305")


def test_own_settings_are_fine_if_zoneward_writes_the_slices() -> None:
    service = a_service("PreferZone")
    slices = [managed_by(names.MANAGER, slice_) for slice_ in built_in(SAME_ZONE, NODES, PODS)]
    assert not findings_of(a_view(service, slices=slices), "ZW306")


def test_overload_says_what_the_zones_need_where_kubernetes_decides() -> None:
    pods = pods_in({"a": 2, "b": 1, "c": 1})
    view = a_view(a_service("Auto"), pods=pods, configuration=Configuration().as_upstream())
    (overload,) = findings_of(view, "ZW402")
    assert overload.message.endswith("below 20 % the zones need at least 2 + 2 + 2 = 6 of 4 endpoints")


def test_own_settings_are_fine_in_an_overlay() -> None:
    assert not findings_of(a_view(a_service("zoneward.dev/Balanced"), overlays=OVERLAYS), "ZW306")


def test_overload_in_force_hides_planned_overload() -> None:
    assert not findings_of(a_view(pods=LOPSIDED), "ZW402")
    slices = [without_hints(slice_) for slice_ in built_in(SAME_ZONE, NODES, LOPSIDED)]
    assert findings_of(a_view(pods=LOPSIDED, slices=slices), "ZW402")


def test_what_if_replaces_the_setting() -> None:
    plain = a_service()
    view = a_view(plain, asking=SAME_ZONE, pods=LOPSIDED)
    assert [finding.code for finding in check_cluster(view).findings] == ["ZW402"]


def test_workload_of_services_without_setting_is_an_info() -> None:
    view = a_view(a_service(), workloads=(a_deployment(topology_spread_constraints=None),))
    assert only(view, "ZW501").severity == "info"


@pytest.mark.parametrize(
    "workload",
    [
        a_deployment(topology_spread_constraints=None, replicas=1),
        a_deployment(topology_spread_constraints=None, replicas=None),
        a_deployment(topology_spread_constraints=None, labels={"app": "other"}),
        a_deployment(
            topology_spread_constraints=None,
            affinity=TemplateAffinity(
                pod_anti_affinity=PodAffinity(
                    preferred=(WeightedPodAffinityTerm(pod_affinity_term=PodAffinityTerm(topology_key=names.ZONE_LABEL)),)
                )
            ),
        ),
    ],
    ids=["one replica", "the default of one", "no Service", "anti-affinity"],
)  # fmt: skip
def test_small_or_spread_workloads_need_no_constraint(workload: object) -> None:
    assert not findings_of(a_view(workloads=(workload,)), "ZW501")


@pytest.mark.parametrize(
    ("affinity", "message"),
    [
        (TemplateAffinity(node_affinity=NodeAffinity(required=IN_ZONE_A)), "matches no node in the zones b, c"),
        (own_affinity(names.ZONE_LABEL), "all of its pods in one zone"),
        (own_affinity("kubernetes.io/hostname"), "all of its pods on one node"),
    ],
    ids=["nodes", "zone", "node"],
)
def test_each_form_of_required_affinity_is_found(affinity: TemplateAffinity, message: str) -> None:
    assert message in only(a_view(workloads=(a_deployment(affinity=affinity),)), "ZW502").message


def requirement(operator: str, *values: str) -> NodeSelector:
    requirement = NodeSelectorRequirement(key="size", operator=operator, values=values or None)
    return NodeSelector(node_selector_terms=(NodeSelectorTerm(), NodeSelectorTerm(match_expressions=(requirement,))))


@pytest.mark.parametrize(
    ("required", "closed"),
    [
        (requirement("In", "2", "3"), "zone c"),
        (requirement("NotIn", "3"), "zone b"),
        (requirement("Exists"), "zone c"),
        (requirement("DoesNotExist"), "the zones a, b"),
        (requirement("Gt", "2"), "the zones a, c"),
        (requirement("Lt", "3"), "the zones b, c"),
        (requirement("Like", "2"), "the zones a, b, c"),
        (requirement("Gt", "9" * 5000), "the zones a, b, c"),
        (NodeSelector(), "the zones a, b, c"),
    ],
    ids=lambda name: name if isinstance(name, str) else "",
)
def test_node_affinity_means_what_the_scheduler_reads(required: NodeSelector, closed: str) -> None:
    nodes = (a_node(labels={"size": "2"}), a_node("node-b", "b", labels={"size": "3"}), a_node("node-c", "c"))
    affinity = TemplateAffinity(node_affinity=NodeAffinity(required=required))
    view = a_view(nodes=nodes, workloads=(a_deployment(affinity=affinity),))
    assert only(view, "ZW502").message.endswith(f"matches no node in {closed}")


def test_volumes_of_a_stateful_set_must_cover_all_zones() -> None:
    claims = (ClaimTemplate(metadata=ClaimTemplateMeta(name="data")),)
    bound = tuple(a_claim(f"data-{SERVICE}-{ordinal}") for ordinal in range(3))
    view = a_view(workloads=(a_stateful_set(claims=claims),), claims=bound, volumes=(VOLUME_A,))
    assert only(view, "ZW503").message == "none of its volumes data-cart-* can be mounted in the zones b, c"
    assert not findings_of(
        a_view(workloads=(a_stateful_set(claims=claims),), claims=bound[:2], volumes=(VOLUME_A,)), "ZW503"
    )


def test_autoscalers_of_other_workloads_are_ignored() -> None:
    assert not findings_of(
        a_view(pods=LOPSIDED, autoscalers=(an_autoscaler("ReplicaSet"), an_autoscaler(name="x"))), "ZW504"
    )


def test_other_endpoints_of_another_manager_are_no_second_writer() -> None:
    assert not findings_of(CASES["ZW601"](), "ZW602")


def test_finding_lists_all_differences_between_slices_and_pods() -> None:
    (slice_,) = built_in(SAME_ZONE, NODES, PODS)
    endpoints = slice_.endpoints or ()
    changed = (replace(endpoints[0], zone="c"), *endpoints[2:], an_endpoint("10.7.7.7", "a", pod="gone"))
    message = only(a_view(slices=[replace(slice_, endpoints=changed)]), "ZW604").message
    assert message == (
        "1 ready pod missing in the slices (a-0001), 1 ready endpoint without such a ready pod (gone),"
        " 1 endpoint with another zone than the node of the pod (a-0000)"
    )


def test_missing_hints_are_found_only_if_the_controller_would_set_them() -> None:
    pods = pods_in({"a": 2, "b": 1, "c": 1})
    service = a_service(threshold="80%", mode="Auto")
    assert not findings_of(a_view(service, pods=pods, slices=built_in(service, NODES, pods)), "ZW606")


# --- all together -----------------------------------------------------------------------------------------------------


def test_findings_are_sorted_by_severity_code_and_object() -> None:
    view = a_view(
        a_service("auot", old=None), nodes=(*NODES, a_node("z", None), a_node("y", None)), proxies="kube-router"
    )
    findings = check_cluster(view).findings
    keys = [(finding.severity, finding.code, finding.object.name) for finding in findings]
    assert keys[:3] == [("error", "ZW101", "y"), ("error", "ZW101", "z"), ("error", "ZW201", "node-a")]
    assert sorted(keys) == keys


@pytest.mark.parametrize("key", [None, f"{NAMESPACE}/{SERVICE}"], ids=["code", "service"])
def test_ignored_findings_are_counted(key: str | None) -> None:
    checked = check_cluster(CASES["ZW501"](), ignored=[Ignored("ZW501", key)])
    assert (checked.findings, checked.ignored) == ((), 1)


def test_finding_stays_until_all_its_services_are_ignored() -> None:
    view = CASES["ZW501"]()
    (service,) = view.services
    meta = replace(service.service.metadata, name="second")
    second = a_view(
        replace(service.service, metadata=meta, spec=replace(service.service.spec, selector={"app": SERVICE}))
    )
    both = ClusterView(view.nodes, view.cluster_state, (service, *second.services), view.node_proxies, view.workloads)
    first = Ignored("ZW501", f"{NAMESPACE}/{SERVICE}")
    (finding,) = [finding for finding in check_cluster(both, ignored=[first]).findings if finding.code == "ZW501"]
    assert finding.services == (f"{NAMESPACE}/second",)
    assert not [
        finding
        for finding in check_cluster(both, ignored=[first, Ignored("ZW501", f"{NAMESPACE}/second")]).findings
        if finding.code == "ZW501"
    ]


@pytest.mark.parametrize("need", sorted({need for code in CODES.values() for need in code.needs}))
def test_missing_objects_disable_exactly_the_codes_that_need_them(need: str) -> None:
    lacking = {need: "no permission"}
    checked = check_cluster(a_view(lacking=lacking))  # type: ignore[arg-type]
    (not_checked,) = checked.not_checked
    assert not_checked.reason == "no permission"
    for code, case in CASES.items():
        view = case()
        if code in not_checked.codes:
            view = ClusterView(
                **{**{name: getattr(view, name) for name in view.__dataclass_fields__}, "lacking": lacking}
            )
            assert not findings_of(view, code), code


def test_findings_follow_the_configured_thresholds() -> None:
    hints = Configuration().hints
    loose = Configuration(
        hints=type(hints)(start_threshold=hints.start_threshold * 20, keep_threshold=hints.keep_threshold * 20)
    )
    assert not findings_of(a_view(pods=LOPSIDED, configuration=loose), "ZW603")


# --- nobody updates ---------------------------------------------------------------------------------------------------


def test_services_of_zoneward_are_orphaned_without_its_controller() -> None:
    with_selector = a_service(annotations={SELECTOR_ANNOTATION: '{"app":"cart"}'})
    adopted = replace(with_selector, spec=replace(with_selector.spec, selector=None))
    for service, slices in ((adopted, built_in(SAME_ZONE, NODES, PODS)), (adopted, ())):
        finding = only(a_view(service, slices=slices, is_led=False), "ZW607")
        assert "zoneward release -- shop/cart" in finding.fix
        assert not findings_of(a_view(service, slices=slices), "ZW607")
        assert not findings_of(a_view(service, slices=slices, is_led=False, lacking={"Leases": "none"}), "ZW607")
    assert "release" not in only(a_view(slices=ours(SAME_ZONE), is_led=False), "ZW607").fix
    assert not findings_of(a_view(is_led=False), "ZW607")
    # The annotation is left over, or a tenant wrote it: the built-in controller updates the slices.
    assert not findings_of(a_view(with_selector, slices=built_in(with_selector, NODES, PODS), is_led=False), "ZW607")


@pytest.mark.parametrize(
    ("mode", "distribution", "advised"),
    [("Auto", None, False), ("zoneward.dev/Balanced", None, False), (None, names.PREFER_SAME_ZONE, True)],
)
def test_auto_is_not_advised_if_the_setting_has_a_threshold(
    mode: str | None, distribution: str | None, advised: bool
) -> None:
    """The hints in force are those of the same zone, with any setting: the pod in a is too busy."""
    service = a_service(mode, distribution=distribution)
    pods = LOPSIDED if distribution else pods_in({"a": 2, "b": 1, "c": 1})
    slices = built_in(SAME_ZONE, NODES, pods)
    fixes = [
        finding.fix
        for finding in check_cluster(a_view(service, pods=pods, slices=slices)).findings
        if finding.code in OVERLOADS
    ]
    assert fixes
    assert {"or ask for Auto" in fix for fix in fixes} == {advised}


def test_fix_for_no_endpoints_depends_on_the_selector() -> None:
    for service, why in (
        (a_service(), "no pod matches its selector, and no slice lists an endpoint"),
        (a_service(selects=False), "it has no selector, and no slice lists an endpoint"),
    ):
        (finding,) = check_cluster(a_view(service, pods=(), slices=())).findings
        assert (finding.code, finding.severity, finding.message) == ("ZW407", "warning", why)


def test_no_endpoint_findings_without_pods_and_slices() -> None:
    view = a_view(pods=(), slices=(), lacking={"endpoints": "there are none"})
    checked = check_cluster(view)
    assert checked.findings == ()
    assert {code for missing in checked.not_checked for code in missing.codes} == {"ZW406", "ZW407"}


@pytest.mark.parametrize(
    ("code", "setting", "pods"),
    [
        ("ZW401", a_service("Auto"), pods_in({"a": 1, "b": 1})),
        ("ZW402", a_service("Auto"), pods_in({"a": 2, "b": 1, "c": 1})),
        ("ZW403", None, pods_in({"a": 3, "b": 3})),
        ("ZW603", None, LOPSIDED),
    ],
)
def test_no_fix_adds_or_spreads_pods_of_a_database(code: str, setting: Service | None, pods: Sequence[Pod]) -> None:
    """Only the leader takes writes: its operator labels it."""

    def role(index: int) -> dict[str, str]:
        return {"role": "replica" if index else "master"}

    database = [
        replace(pod, metadata=replace(pod.metadata, labels={**(pod.metadata.labels or {}), **role(index)}))
        for index, pod in enumerate(pods)
    ]
    (fix,) = (finding.fix for finding in check_cluster(a_view(setting, pods=database)).findings if finding.code == code)
    assert fix.startswith("Remove the setting: Pod ")
    assert "alone leads (role=master)" in fix
    assert CODES[code].fix not in fix
