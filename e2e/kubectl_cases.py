"""Command lines of kubectl, in the order in which they are run: each scenario in a namespace that is its own."""

from dataclasses import dataclass
from typing import Final

from e2e import kubectl_manifests as manifests


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One command."""

    command: str
    """Without ``kubectl`` and the namespace, as a shell would read it."""
    stdin: str = ""
    editor: str = "false"
    """For ``kubectl edit``: called with the name of the file."""
    lines: str = ""
    """A pattern: only lines that match somewhere count, since a whole Kubernetes has more to tell."""


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    cases: tuple[Case, ...]

    @property
    def namespace(self) -> str:
        return f"kubectl-{self.name}"


def _cases(*commands: str | Case) -> tuple[Case, ...]:
    return tuple(each if isinstance(each, Case) else Case(command=each) for each in commands)


def _sent(command: str, stdin: str) -> Case:
    return Case(command=command, stdin=stdin)


def _namespace(name: str) -> Case:
    return _sent("create -f -", f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n")


def _sed(command: str, script: str) -> Case:
    # With quotes in it, kubectl gives it to a shell.
    return Case(command=command, editor=f"sed -i '{script}'")


_KINDS: Final = "services|nodes|pods|endpoints|endpointslices|events|leases|namespaces"

READING: Final = Scenario(
    "reading",
    _cases(
        _namespace("kubectl-reading"),
        _sent("create -f -", manifests.NODES),
        f"patch node kubectl-a --subresource=status --type=strategic -p '{manifests.NODE_STATUS}'",
        _sent("create -f -", manifests.SERVICES),
        _sent("create -f -", manifests.PODS),
        f"patch pod cart-1 --subresource=status --type=merge -p '{manifests.POD_STATUS}'",
        _sent("create -f -", manifests.SLICES),
        _sent("create -f -", manifests.ENDPOINTS),
        _sent("create -f -", manifests.LEASE),
        _sent("create -f -", manifests.EVENTS.replace("NAMESPACE", "kubectl-reading")),
        # Tables.
        "get services",
        "get svc -o wide",
        "get nodes kubectl-a kubectl-b",
        "get pods",
        "get endpointslices",
        "get endpoints",
        "get ep cart -o yaml",
        "describe endpoints cart",
        "get leases",
        "get events",
        "get events.events.k8s.io",
        "get ns kubectl-reading",
        "get services,pods",
        "get svc/cart pod/cart-1",
        "get all",
        "get services --show-labels",
        "get services -L app,tier",
        "get services --no-headers",
        "get services --show-kind",
        "get pods -A --field-selector metadata.namespace=kubectl-reading",
        "get leases -A --field-selector metadata.name=leader",
        # SelectorIndex.
        "get services -l app=cart",
        "get services -l 'app in (cart, x), tier'",
        "get services -l '!app'",
        "get services -l app=none",
        "get services -l 'app='",
        "get services -l 'app in ('",
        "get pods --field-selector spec.nodeName=kubectl-a",
        "get pods --field-selector status.phase!=Running",
        "get pods --field-selector spec.nope=1",
        "get services --field-selector metadata.name=cart",
        "get services --field-selector spec.type=LoadBalancer",
        "get events --field-selector involvedObject.name=cart-1,type=Warning",
        "get events --field-selector reason=Synced",
        "get nodes --field-selector spec.unschedulable=true,metadata.name=kubectl-b",
        "get services --sort-by=.metadata.name",
        "get services --sort-by=.spec.type -o name",
        "get services --chunk-size=2",
        # Other forms.
        "get services -o name",
        "get services,pods,leases -o name",
        *(f"get {each} -o yaml" for each in ("service cart", "svc headless", "svc elsewhere", "svc balanced")),
        "get svc node-port -o json",
        "get services -l app=cart -o yaml",
        "get endpointslices -o yaml",
        "get lease leader -o yaml",
        "get events -o yaml",
        "get events.events.k8s.io -o yaml",
        "get namespace kubectl-reading -o yaml",
        'get services -o jsonpath=\'{range .items[*]}{.metadata.name}{"\\t"}{.spec.type}{"\\n"}{end}\'',
        "get pod cart-1 -o jsonpath='{.status.containerStatuses[*].name}'",
        "get pod cart-1 -o jsonpath='{.nope}'",
        "get services -o custom-columns=NAME:.metadata.name,TYPE:.spec.type,PORTS:.spec.ports[*].port",
        "get services -o go-template='{{range .items}}{{.metadata.name}} {{end}}'",
        "get --raw /api/v1/namespaces/kubectl-reading/pods/nope",
        "get --raw /nope",
        # What is not there.
        "get service nope",
        "get service nope --ignore-not-found",
        "get service cart nope",
        "get nope",
        "get services -n nowhere",
        "get pods -n nowhere nope",
        # Descriptions.
        *(f"describe service {each}" for each in ("cart", "headless", "node-port", "balanced", "elsewhere")),
        "describe node kubectl-a",
        "describe node kubectl-b",
        "describe endpointslices",
        "describe lease leader",
        "describe events",
        # Quotas and limits are kinds of their own, which a sandbox does not have.
        Case(command="describe namespace kubectl-reading", lines=r"^\w+:"),
        "describe services -l app=cart",
        "describe service nope",
        # Events.
        "events",
        "events --for pod/cart-1",
        "events --types=Normal",
        "events -o yaml",
        # Watches: they end with the time limit.
        "get services -w --request-timeout=1s",
        "get pods -w --request-timeout=1s -o name",
        "get leases --watch-only --request-timeout=1s",
        "get service cart -w --request-timeout=1s -o jsonpath='{.metadata.name}{\"\\n\"}'",
        "events --watch --request-timeout=1s",
        "delete node kubectl-a kubectl-b",
        "delete pods --all --grace-period=0 --force",
        "delete namespace kubectl-reading --wait=false",
    ),
)

APPLYING: Final = Scenario(
    "applying",
    _cases(
        _namespace("kubectl-applying"),
        _sent("apply --dry-run=server -f -", manifests.SHOP),
        "get service shop",
        _sent("apply --dry-run=client -f -", manifests.SHOP),
        _sent("apply -f -", manifests.SHOP),
        "get service shop -o yaml",
        _sent("apply -f -", manifests.SHOP),
        _sent("apply --dry-run=server -f -", manifests.SHOP_CHANGED),
        _sent("apply -f -", manifests.SHOP_CHANGED),
        "get service shop -o yaml",
        _sent("apply -f - -o yaml", manifests.SHOP_LATER),
        "apply view-last-applied service shop",
        _sent("apply --validate=warn -f -", manifests.SHOP_WITH_MISTAKE),
        _sent("apply --validate=ignore -f -", manifests.SHOP_WITH_MISTAKE),
        "get service shop -o yaml",
        _sent("apply -f -", manifests.SERVICES),
        _sent("apply -f -", manifests.SERVICES),
        "delete namespace kubectl-applying --wait=false",
    ),
)

CHANGING: Final = Scenario(
    "changing",
    _cases(
        _namespace("kubectl-changing"),
        _sent("create -f -", manifests.SHOP),
        _sent("create -f -", manifests.SHOP),
        _sent("create -f - --dry-run=server -o yaml", manifests.OWN),
        "get services",
        _sent("create -f -", manifests.GENERATED),
        "create namespace kubectl-changing",
        "create namespace Not_A_Name",
        "create namespace kubectl-made",
        "get namespace kubectl-made -o yaml",
        "delete namespace kubectl-made --wait=false",
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
        'patch service shop --dry-run=server -p \'{"metadata":{"labels":{"dry":"run"}}}\' -o name',
        "get service shop -o yaml --subresource=status",
        # Edits.
        _sed("edit service shop", "s/ port: 82$/ port: 83/"),
        _sed("edit service shop", "s/ port: 82$/ port: 83/"),
        _sed("edit service shop -o json", 's/"port": 83/"port": 84/'),
        "get service shop -o yaml",
        # Replacements.
        _sent("replace -f -", manifests.STALE),
        _sent("replace -f -", manifests.FRESH),
        "get service shop -o yaml",
        _sent("replace -f -", manifests.OWN),
        _sent("replace --force -f -", manifests.SHOP),
        # Labels and annotations.
        "label service shop tier=front",
        "label service shop tier=front",
        "label service shop tier=back",
        "label service shop tier=back --overwrite",
        "label service shop tier-",
        "label service shop tier-",
        "label service shop 'tier=not valid'",
        "label service shop --list",
        "label services --all all=yes",
        "label services -l app=shop more=yes --resource-version=1",
        "annotate service shop example.com/note=x",
        "annotate service shop example.com/note=x --overwrite",
        "annotate service shop example.com/note-",
        "annotate service shop other=y third=z",
        "annotate service nope a=b",
        Case(command="annotate service shop --list", lines="other"),
        "set selector service shop app=set",
        "get service shop -o yaml",
        _sent("create -f -", manifests.NODES),
        "label node kubectl-a example.com/x=y",
        "taint node kubectl-a example.com/t=v:NoExecute",
        "cordon kubectl-a",
        "uncordon kubectl-a",
        "delete node kubectl-a kubectl-b",
        "delete namespace kubectl-changing --wait=false",
    ),
)

DELETING: Final = Scenario(
    "deleting",
    _cases(
        _namespace("kubectl-deleting"),
        _sent("create -f -", manifests.LEASES),
        "wait lease/a --for=jsonpath='{.spec.holderIdentity}'=first --timeout=5s",
        "wait lease/a --for=jsonpath='{.spec.holderIdentity}'=never --timeout=1s",
        "wait lease/nope --for=jsonpath='{.spec.holderIdentity}'=first --timeout=1s",
        "wait lease/nope --for=delete --timeout=1s",
        "wait lease/a --for=delete --timeout=1s",
        "wait lease -l group=x --for=jsonpath='{.spec.holderIdentity}' --timeout=5s",
        "wait lease/a --for=create --timeout=1s",
        "delete lease a --dry-run=server",
        "delete lease a",
        "delete lease a",
        "delete lease a --ignore-not-found",
        "delete lease -l group=x",
        "delete lease -l group=x",
        "delete lease --all",
        "delete lease --all",
        "delete leases",
        "delete nope --all",
        _sent("create -f -", manifests.LEASES),
        _sent("delete -f -", manifests.LEASES),
        _sent("delete -f -", manifests.LEASES),
        _sent("create -f -", manifests.HELD),
        "delete lease held --wait=false",
        "get lease held -o yaml",
        "delete lease held --timeout=1s",
        'patch lease held --type=merge -p \'{"metadata":{"finalizers":null}}\'',
        "wait lease/held --for=delete --timeout=5s",
        _sent("create -f -", manifests.SERVICES),
        "delete service cart headless",
        "delete services --all",
        _sent("create -f -", manifests.PODS),
        "wait pod/cart-2 --for=condition=Ready --timeout=1s",
        'patch pod cart-2 --subresource=status -p \'{"status":{"conditions":[{"type":"Ready","status":"True"}]}}\'',
        "wait pod/cart-2 --for=condition=Ready --timeout=5s",
        "wait pod --all --for=condition=Ready=False --timeout=1s",
        "delete pod cart-2",
        # Held, since nobody confirms here that it has ended, and a sandbox does.
        'patch pod cart-1 --type=merge -p \'{"metadata":{"finalizers":["example.com/hold"]}}\'',
        "delete pod cart-1 --wait=false",
        "get pod cart-1",
        "delete pod cart-1 --now --wait=false",
        "delete pod cart-1 --grace-period=0 --timeout=1s",
        "delete pod cart-1 --grace-period=0 --force --wait=false",
        'patch pod cart-1 --type=merge -p \'{"metadata":{"finalizers":null}}\'',
        "get pod cart-1",
        _sent("create -f -", manifests.SLICES),
        "delete endpointslices --all",
        _sent("create -f -", manifests.EVENTS.replace("NAMESPACE", "kubectl-deleting")),
        "delete events old new",
        "delete namespace kubectl-deleting",
        "get namespace kubectl-deleting",
        "delete namespace default --dry-run=server",
        "delete namespace kubectl-nope",
    ),
)

REFUSALS: Final = Scenario(
    "refusals",
    _cases(
        _namespace("kubectl-refusals"),
        *(
            _sent("create -f -", manifest)
            for manifest in (
                manifests.INVALID_SERVICE,
                manifests.INVALID_SLICE,
                manifests.INVALID_LEASE,
                manifests.UNKNOWN_KIND,
                manifests.NO_VERSION,
                manifests.UNKNOWN_FIELD,
            )
        ),
        _sent("create --validate=warn -f -", manifests.UNKNOWN_FIELD),
        "get service unknown-field -o yaml",
        _sent("apply -f -", manifests.INVALID_SERVICE),
        _sent("apply -f -", manifests.UNKNOWN_FIELD.replace("unknown-field", "unknown-too")),
        _sent("create -f -", manifests.OWN + "status: {nope: 1}\n"),
        _sent("create -n nowhere -f -", manifests.OWN),
        _sent("create -f -", manifests.OWN.replace("name: own", "name: own\n  namespace: elsewhere")),
        _sent("create -f -", manifests.NAMELESS),
        _sent("create -f -", "not: [yaml"),
        _sent("create -f -", ""),
        _sent("create -f -", manifests.SLICES),
        'patch endpointslice cart-x -p \'{"addressType":"IPv6"}\'',
        "delete namespace kubectl-refusals --wait=false",
    ),
)

ASKING: Final = Scenario(
    "asking",
    _cases(
        _namespace("kubectl-asking"),
        "version",
        Case(command="version -o yaml", lines="gitVersion|major|minor|Major|Minor"),
        Case(command="api-versions", lines=r"^v1$|coordination|discovery\.k8s|events\.k8s"),
        Case(command="api-resources", lines=rf"^({_KINDS}) |^NAME"),
        Case(command="api-resources -o wide", lines=rf"^({_KINDS}) "),
        Case(command="api-resources -o name", lines=rf"^({_KINDS})(\.|$)"),
        *(f"api-resources --api-group={group}.k8s.io -o wide" for group in ("coordination", "discovery", "events")),
        Case(command="api-resources --namespaced=false", lines=rf"^({_KINDS}) "),
        Case(command="api-resources --categories=all --api-group=''", lines=rf"^({_KINDS}) "),
        "get --raw /apis/discovery.k8s.io",
        "get --raw /apis/nope.k8s.io",
        "get --raw /healthz",
        "get --raw /readyz",
        "get --raw /livez",
        "delete namespace kubectl-asking --wait=false",
    ),
)

SCENARIOS: Final = (READING, APPLYING, CHANGING, DELETING, REFUSALS, ASKING)
