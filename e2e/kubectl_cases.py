"""Command lines of kubectl, in the order in which they are run: each scenario in a namespace that is its own."""

import json
from dataclasses import dataclass
from typing import Any, Final

from tests.builders.objects import (
    ZONE,
    a_bare_node,
    a_bare_pod,
    a_core_event,
    a_lease,
    a_namespace,
    a_service,
    a_slice,
    an_event,
    some_endpoints,
)
from tests.contract.api import Object


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One command."""

    command: str
    """Without ``kubectl`` and the namespace, as a shell would read it."""
    stdin: str = ""
    editor: str = "false"
    """For ``kubectl edit``: called with the name of the file."""
    lines: str = ""
    """A pattern: only lines that match somewhere count, since a whole Kubernetes prints more."""


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    cases: tuple[Case, ...]

    @property
    def namespace(self) -> str:
        return f"kubectl-{self.name}"


def _scenario(name: str, *commands: str | Case) -> Scenario:
    cases = (command if isinstance(command, Case) else Case(command=command) for command in commands)
    return Scenario(name, (sent("create -f -", a_namespace(f"kubectl-{name}")), *cases))


def sent(command: str, *things: Object) -> Case:
    """With objects of the scenario's namespace, except those that have another."""
    for object_ in things:
        if object_["metadata"].get("namespace") == "":
            del object_["metadata"]["namespace"]
    return Case(command=command, stdin="\n".join(map(json.dumps, things)))


def _sed(command: str, script: str) -> Case:
    # With quotes in it, kubectl gives it to a shell.
    return Case(command=command, editor=f"sed -i '{script}'")


# --- what is sent -----------------------------------------------------------------------------------------------------


def _service(name: str, *ports: Object, about: Object | None = None, **spec: Any) -> Object:
    """``about``: more of its metadata; ``spec`` may have fields that no Service has."""
    service = a_service(name, namespace="", ports=list(ports))
    service["metadata"] |= about or {}
    service["spec"] |= spec
    return service


def _port(port: int, name: str | None = None, **more: Any) -> Object:
    return {"port": port, **({} if name is None else {"name": name}), **more}


_TIME = "2026-01-02T03:04:05Z"
_APP = {"app": "cart"}
_NODES = (
    a_bare_node("kubectl-a", labels={ZONE: "a", "node-role.kubernetes.io/control-plane": ""}),
    a_bare_node("kubectl-b", labels={ZONE: "b"}) | {"spec": {"unschedulable": True}},
)
_NODE_STATUS = {
    "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": _TIME}],
    "addresses": [{"type": "InternalIP", "address": "192.0.2.10"}, {"type": "Hostname", "address": "kubectl-a"}],
    "allocatable": {"cpu": "3", "memory": "7Gi", "pods": "110"},
}
_SERVICES = (
    _service(
        "cart",
        *(_port(80, "http", targetPort=8080), _port(53, "dns", protocol="UDP")),
        about={"labels": {**_APP, "tier": "front"}},
        selector=_APP,
    ),
    _service("headless", _port(80), about={"labels": _APP}, clusterIP="None", selector=_APP),
    _service("node-port", _port(80), type="NodePort"),
    _service(
        "balanced",
        _port(443, "https"),
        about={"annotations": {"example.com/note": "a longer text: with a colon"}},
        type="LoadBalancer",
        sessionAffinity="ClientIP",
        externalTrafficPolicy="Local",
    ),
    _service("elsewhere", type="ExternalName", externalName="example.com"),
)
_PODS = (a_bare_pod("cart-1", namespace="", labels=_APP), a_bare_pod("cart-2", namespace="", labels={"tier": "back"}))
_PODS[0]["spec"]["nodeName"] = "kubectl-a"
_PODS[1]["spec"]["terminationGracePeriodSeconds"] = 0
_POD_STATUS = {
    "phase": "Running",
    "podIP": "10.1.2.3",
    "podIPs": [{"ip": "10.1.2.3"}],
    "conditions": [{"type": "Ready", "status": "True"}],
    "containerStatuses": [{"name": "main", "image": "main", "imageID": "d", "ready": True, "restartCount": 2}],
}
_SLICES = (
    a_slice("cart-x", service="cart", namespace="", addresses=["10.1.2.3", "10.1.2.4"], zone="a", hints=["a"]),
    a_slice("empty", service="cart", namespace="") | {"addressType": "IPv6", "ports": None},
)
_SLICES[0]["ports"].append(_port(53, "dns", protocol="UDP"))


def _events(namespace: str) -> tuple[Object, Object]:
    return a_core_event("old", namespace=namespace), an_event("new", namespace=namespace)


_SHOP = _service(
    "shop",
    _port(80, "http"),
    about={"labels": {"app": "shop"}, "annotations": {"example.com/note": "first"}},
    selector={"app": "shop"},
)
_SHOP_CHANGED = _service(
    "shop",
    *(_port(80, "http"), _port(443, "https")),
    about={"labels": {"app": "shop", "tier": "front"}},
    selector={"app": "shop"},
)
OWN: Final = _service("own", _port(80, "http", protocol="TCP"), selector={"app": "own"})
_LEASES = tuple(
    a_lease(name, namespace="", holder=holder, labels={"group": group})
    for name, holder, group in (("a", "first", "x"), ("b", "second", "x"), ("c", "third", "z"))
)
_HELD = a_lease("held", namespace="")
_HELD["metadata"]["finalizers"] = ["example.com/hold"]
_INVALID = (
    _service(
        "Wrong_Name",
        *(_port(0, "a"), _port(70_000, "a", protocol="ICMP")),
        type="Nonsense",
        sessionAffinity="Sometimes",
    ),
    a_slice("wrong", service="cart", namespace="", addresses=["2001:db8::1"])
    | {"ports": [_port(80, "a"), _port(81, "a", protocol="X")]},
    a_lease("wrong", namespace="") | {"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}},
    {"apiVersion": "v1", "kind": "Servise", "metadata": {"name": "x"}},
    {"kind": "Service", "metadata": {"name": "x"}},
)
_UNKNOWN_FIELD = _service("unknown-field", {"port": 80, "prot": "TCP"}, about={"label": {}}, selektor={})


# --- what is done -----------------------------------------------------------------------------------------------------

_KINDS: Final = "services|nodes|pods|endpoints|endpointslices|events|leases|namespaces"

_READING = _scenario(
    "reading",
    sent(
        "create -f -",
        *_NODES,
        *_SERVICES,
        *_PODS,
        *_SLICES,
        some_endpoints("cart", namespace=""),
        a_lease("leader", namespace=""),
    ),
    sent("create -f -", *_events("kubectl-reading")),
    f"patch node kubectl-a --subresource=status --type=strategic -p '{json.dumps({'status': _NODE_STATUS})}'",
    f"patch pod cart-1 --subresource=status --type=merge -p '{json.dumps({'status': _POD_STATUS})}'",
    # A real API server that looks for lost addresses while a Service is created reports one that is nearly there.
    Case(command="delete events --field-selector reason=ClusterIPNotAllocated", lines="^Error"),
    # Tables.
    *(f"get {arguments}" for arguments in ("services", "pods", "endpointslices", "endpoints", "leases", "events")),
    "get all",
    "get pods -A --field-selector metadata.namespace=kubectl-reading",
    # Selectors.
    *(
        f"get services -l '{arguments}'"
        for arguments in ("app in (cart, x), tier", "!app", "app=none", "app=", "app in (")
    ),
    *(
        f"get {arguments}"
        for arguments in (
            "pods --field-selector spec.nodeName=kubectl-a",
            "pods --field-selector status.phase!=Running",
            "pods --field-selector spec.nope=1",
            "services --field-selector metadata.name=cart",
            "services --field-selector spec.type=LoadBalancer",
            "events --field-selector involvedObject.name=cart,type=Normal",
            "nodes --field-selector spec.unschedulable=true,metadata.name=kubectl-b",
        )
    ),
    # Other forms.
    "get services,pods,leases -o name",
    *(f"get {arguments} -o yaml" for arguments in ("services", "endpointslices", "ep cart", "lease leader", "events")),
    "get --raw /api/v1/namespaces/kubectl-reading/pods/nope",
    "get --raw /nope",
    # What is not there.
    "get service cart nope",
    "get nope",
    "get services -n nowhere",
    # Descriptions and events.
    *(
        f"describe {arguments}"
        for arguments in ("services", "node kubectl-a", "endpointslices", "lease leader", "service nope")
    ),
    "events --for service/cart",
    # Watches: they end with the time limit.
    "get services -w --request-timeout=3s",
    "get leases --watch-only --request-timeout=3s",
    "delete node kubectl-a kubectl-b",
    "delete pods --all --grace-period=0 --force",
    "delete namespace kubectl-reading --wait=false",
)

_APPLYING = _scenario(
    "applying",
    sent("apply --dry-run=server -f -", _SHOP),
    "get service shop",
    sent("apply -f -", _SHOP),
    "get service shop -o yaml",
    sent("apply -f -", _SHOP),
    sent("apply --dry-run=server -f -", _SHOP_CHANGED),
    sent("apply -f -", _SHOP_CHANGED),
    "get service shop -o yaml",
    sent("apply -f - -o yaml", _SHOP),
    "apply view-last-applied service shop",
    sent("apply --validate=warn -f -", _service("shop", _port(80, "http"), selektor={"app": "shop"})),
    sent("apply --validate=ignore -f -", _service("shop", _port(80, "http"), selektor={"app": "shop"})),
    "get service shop -o yaml",
    sent("apply -f -", *_SERVICES),
    sent("apply -f -", *_SERVICES),
    "delete namespace kubectl-applying --wait=false",
)

_CHANGING = _scenario(
    "changing",
    sent("create -f -", _SHOP),
    sent("create -f -", _SHOP),
    sent("create -f - --dry-run=server -o yaml", OWN),
    "get services",
    sent("create -f -", a_lease("", namespace="") | {"metadata": {"generateName": "made-"}}),
    "create namespace kubectl-changing",
    # Patches.
    'patch service shop -p \'{"spec":{"ports":[{"port":443,"name":"https"}]}}\'',
    "get service shop -o jsonpath='{.spec.ports[*].port}'",
    'patch service shop --type=merge -p \'{"spec":{"ports":[{"port":81,"name":"only"}]}}\'',
    "get service shop -o jsonpath='{.spec.ports[*].port}'",
    'patch service shop -p \'{"spec":{"ports":[{"port":82,"name":"only"}]}}\'',
    'patch service shop -p \'{"spec":{"nope":1}}\'',
    'patch service shop -p \'{"spec":{"ports":[{"port":0}]}}\'',
    "patch service nope -p '{}'",
    "patch service shop --subresource=status --type=merge"
    ' -p \'{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.7"}]}}}\'',
    'patch service shop --type=merge -p \'{"spec":{"clusterIP":"10.96.0.77"}}\'',
    "get service shop -o yaml --subresource=status",
    # Edits.
    _sed("edit service shop", "s/ port: 82$/ port: 83/"),
    _sed("edit service shop -o json", 's/"port": 83/"port": 84/'),
    "get service shop -o yaml",
    # Replacements.
    sent("replace -f -", _service("shop", _port(80, "http"), about={"resourceVersion": "1"})),
    sent("replace -f -", _service("shop", _port(88, "http"), about={"labels": {"app": "replaced"}})),
    "get service shop -o yaml",
    sent("replace -f -", OWN),
    sent("replace --force -f -", _SHOP),
    # Labels and annotations.
    "label service shop tier=front",
    "label service shop tier=back",
    "label service shop tier-",
    "label service shop 'tier=not valid'",
    "label services --all all=yes",
    "annotate service shop example.com/note=x",
    "annotate service shop example.com/note-",
    "set selector service shop app=set",
    "get service shop -o yaml",
    sent("create -f -", *_NODES),
    "label node kubectl-a example.com/x=y",
    "delete node kubectl-a kubectl-b",
    "delete namespace kubectl-changing --wait=false",
)

_DELETING = _scenario(
    "deleting",
    sent("create -f -", *_LEASES),
    "wait lease/a --for=jsonpath='{.spec.holderIdentity}'=first --timeout=30s",
    "wait lease/a --for=delete --timeout=2s",
    "delete lease a",
    "delete lease a",
    "delete lease -l group=x",
    sent("create -f -", *_LEASES),
    sent("delete -f -", *_LEASES),
    sent("delete -f -", *_LEASES),
    sent("create -f -", _HELD),
    "delete lease held --wait=false",
    "get lease held -o yaml",
    "delete lease held --timeout=2s",
    'patch lease held --type=merge -p \'{"metadata":{"finalizers":null}}\'',
    "wait lease/held --for=delete --timeout=30s",
    sent("create -f -", *_SERVICES),
    "delete services --all",
    sent("create -f -", *_PODS),
    "wait pod/cart-2 --for=condition=Ready --timeout=2s",
    'patch pod cart-2 --subresource=status -p \'{"status":{"conditions":[{"type":"Ready","status":"True"}]}}\'',
    "wait pod/cart-2 --for=condition=Ready --timeout=30s",
    "delete pod cart-2",
    # Held, since nobody confirms here that it has ended, and a sandbox does.
    'patch pod cart-1 --type=merge -p \'{"metadata":{"finalizers":["example.com/hold"]}}\'',
    "delete pod cart-1 --wait=false",
    "delete pod cart-1 --grace-period=0 --force --wait=false",
    'patch pod cart-1 --type=merge -p \'{"metadata":{"finalizers":null}}\'',
    "get pod cart-1",
    sent("create -f -", *_SLICES, *_events("kubectl-deleting")),
    "delete endpointslices --all",
    "delete events old new",
    "delete namespace kubectl-deleting",
    "delete namespace default --dry-run=server",
    "delete namespace kubectl-nope",
)

_REFUSALS = _scenario(
    "refusals",
    *(sent("create -f -", object_) for object_ in (*_INVALID, _UNKNOWN_FIELD)),
    sent("create --validate=warn -f -", _UNKNOWN_FIELD),
    "get service unknown-field -o yaml",
    sent("apply -f -", _INVALID[0]),
    sent("create -n nowhere -f -", OWN),
    sent("create -f -", {**OWN, "metadata": {"name": "own", "namespace": "elsewhere"}}),
    sent("create -f -", a_lease("", namespace="") | {"metadata": {}}),
    Case(command="create -f -", stdin="not: [yaml"),
    Case(command="create -f -", stdin=""),
    sent("create -f -", *_SLICES),
    'patch endpointslice cart-x -p \'{"addressType":"IPv6"}\'',
    "delete namespace kubectl-refusals --wait=false",
)

_ASKING = _scenario(
    "asking",
    "version",
    Case(command="api-versions", lines=r"^v1$|coordination|discovery\.k8s|events\.k8s"),
    Case(command="api-resources -o wide", lines=rf"^({_KINDS}) "),
    "api-resources --api-group=discovery.k8s.io -o wide",
    *(f"get --raw {path}" for path in ("/apis/discovery.k8s.io", "/apis/nope.k8s.io", "/healthz", "/readyz", "/livez")),
    "delete namespace kubectl-asking --wait=false",
)

SCENARIOS: Final = (_READING, _APPLYING, _CHANGING, _DELETING, _REFUSALS, _ASKING)
