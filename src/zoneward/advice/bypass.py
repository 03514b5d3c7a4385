"""Traffic that does not follow hints: it bypasses the proxies of the nodes, or they handle it in another way."""

from collections.abc import Iterator

from zoneward.advice.json_value import JsonValue
from zoneward.advice.service_input import ServiceInput
from zoneward.kube import names
from zoneward.kube.objects import Pod, Service
from zoneward.routing.phrases import counted
from zoneward.routing.selection.endpoint_selection import LOCAL, is_externally_accessible, is_proxied, policies_of


class Bypass(JsonValue, frozen=True, gc=False):
    """``what`` is a stable name in kebab case, ``detail`` a sentence for people."""

    what: str
    detail: str


def bypasses(given: ServiceInput) -> tuple[Bypass, ...]:
    """Traffic of a Service that hints and slice groups do not reach, as far as the input shows it."""
    bypassing = [*_of_settings(given), *_of_load_balancers(given.service), *_of_meshes(given)]
    if is_proxied(given.service) and given.service.spec.type != "ExternalName":
        detail = (
            "not visible here: ingress controllers that read endpoints themselves"
            " (ingress-nginx without the annotation service-upstream), and clients that ask for Pods by name"
        )
        bypassing.append(Bypass("ingress-not-seen", detail))
    return tuple(bypassing)


def _of_settings(given: ServiceInput) -> Iterator[Bypass]:
    service, gates = given.service, given.cluster_state.configuration.gates
    spec = service.spec
    if spec.type == "ExternalName":
        yield Bypass("external-name", "type is ExternalName: DNS answers with another name, and there are no endpoints")
        return
    if not is_proxied(service):
        yield Bypass("headless", "clusterIP is None: DNS gives clients every address, and they choose; no proxy does")
        return
    if name := (service.metadata.labels or {}).get(names.PROXY_NAME_LABEL):
        yield Bypass("service-proxy-name", f"only the proxy with the name {name} serves it, not that of every node")
    if policies_of(service, gates).internal_local:
        yield Bypass(
            "internal-traffic-policy",
            "internalTrafficPolicy is Local: clients reach endpoints on their own node only, and hints do not matter",
        )
    if spec.external_traffic_policy == LOCAL and is_externally_accessible(service):
        yield Bypass(
            "external-traffic-policy",
            "externalTrafficPolicy is Local: traffic from outside stays on the node where it arrives",
        )
    elif is_externally_accessible(service):
        yield Bypass(
            "external-traffic",
            "traffic from outside starts on the node where the load balancer sends it, which no demand here counts",
        )
    if spec.session_affinity == "ClientIP":
        yield Bypass(
            "session-affinity",
            "sessionAffinity is ClientIP: a client keeps its endpoint, also when hints change, and loads are less even",
        )
    if spec.publish_not_ready_addresses:
        yield Bypass(
            "not-ready", "publishNotReadyAddresses: Pods that are not ready count as endpoints, and get traffic"
        )


def _of_load_balancers(service: Service) -> Iterator[Bypass]:
    annotations = service.metadata.annotations or {}
    targets = [name for name in names.NLB_TARGET_ANNOTATIONS if annotations.get(name) in names.NLB_OF_PODS]
    if targets:
        yield Bypass(
            "load-balancer", f"{targets[0]} is {annotations[targets[0]]}: the load balancer sends to Pods, past proxies"
        )
    neg = annotations.get(names.NEG_ANNOTATION, names.NEG_OF_EVERY_SERVICE)
    if names.NEG_STATUS_ANNOTATION in annotations or neg != names.NEG_OF_EVERY_SERVICE:
        detail = f"{names.NEG_ANNOTATION}: the load balancer sends to Pods of the group itself, past proxies"
        yield Bypass("load-balancer", detail)


def _of_meshes(given: ServiceInput) -> Iterator[Bypass]:
    for (what, title), pods in sorted(_pods_by_mesh(given).items()):
        where = f"in {pods} of {counted(len(given.pods), 'Pod')}" if pods else "by a waypoint"
        yield Bypass(
            what, f"{title} is at work {where}: clients in the mesh choose endpoints themselves, not kube-proxy"
        )


def meshes_of(given: ServiceInput) -> tuple[str, ...]:
    """The names of the meshes that Pods of a Service belong to, in order."""
    return tuple(title for _, title in sorted(_pods_by_mesh(given)))


def _pods_by_mesh(given: ServiceInput) -> dict[tuple[str, str], int]:
    """The number of Pods by the stable name and the title of their mesh; 0 where only a waypoint is known."""
    pods_by_mesh: dict[tuple[str, str], int] = {}
    for pod in given.pods:
        for mesh in set(_meshes_of_pod(pod)):
            pods_by_mesh[mesh] = pods_by_mesh.get(mesh, 0) + 1
    if names.ISTIO_WAYPOINT in {**(given.service.metadata.labels or {}), **(given.service.metadata.annotations or {})}:
        pods_by_mesh.setdefault(("istio", "Istio"), 0)
    return pods_by_mesh


def _meshes_of_pod(pod: Pod) -> Iterator[tuple[str, str]]:
    labels = pod.metadata.labels or {}
    for label, mesh in names.MESH_LABELS.items():
        if label in labels and labels[label] not in names.NO_MESH:
            yield mesh
