"""``deploy/`` grants exactly the permissions that a replica needs, and a real API server accepts every manifest."""

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from e2e.control_plane import SLICE_CONTROLLERS, ControlPlane, User
from e2e.controllers import ONLY_MARKED, TAKE_OVER, ZonewardController
from e2e.pods import LABELS, AuditLog, Shop, a_shop, ready_addresses
from tests.builders.objects import a_service
from tests.contract.api import MERGE_PATCH, STRATEGIC_PATCH, Api, ApiError, Object
from tests.deploy.manifests import DEPLOY, NAMESPACES, ROOT, Right, container, granted, namespace_of, the

from zoneward.controller.status.status_writer import CONTROLLER
from zoneward.kube import names
from zoneward.kube.adoption_marks import (
    ENDPOINTS_ANNOTATION,
    SELECTOR_ANNOTATION,
    SKIP_MIRROR_LABEL,
    encode_selector,
)

NAMESPACE = "shop"
MOVING = ROOT / "docs" / "moving-from-topology-mode.md"
PODS = 12
MARKS = {SELECTOR_ANNOTATION: json.dumps(LABELS), ENDPOINTS_ANNOTATION: "keep"}
"""Of a Service that Zoneward manages from the beginning."""
FREE: Right = ("authorization.k8s.io", "selfsubjectaccessreviews", "create")
"""Every authenticated user has it."""
SELDOM: set[Right] = {
    # For servers that do not stream lists, and when a watch does not show Zoneward's own writes.
    *((group, kind, "list") for group, kind in (("", "nodes"), ("", "pods"), ("", "services"))),
    ("discovery.k8s.io", "endpointslices", "list"),
    ("coordination.k8s.io", "leases", "list"),
    # When another writer changes Zoneward's slices, or an answer is lost.
    ("discovery.k8s.io", "endpointslices", "get"),
}
"""Permissions that only failures need; `tests/deploy` shows their use."""
ADMITTED: Right = ("", "services/finalizers", "update")
"""Checked by an admission plugin, which the audit log does not record."""


class Cluster(Shop):
    """A control plane to which a folder of ``deploy/`` was applied. ``home`` is the controller's namespace."""

    def __init__(self, plane: ControlPlane, audit: AuditLog, mode: str) -> None:
        super().__init__(plane.api(), NAMESPACE)
        self.plane, self.audit, self.mode = plane, audit, mode
        self.home: str = namespace_of(mode)["metadata"]["name"]

    def account(self) -> User:
        """The service account of the manifests, with a token."""
        name = the("ServiceAccount", self.mode)["metadata"]["name"]
        return self.plane.service_account(name, namespace=self.home)

    def controller(self, user: User | str, folder: Path, *flags: str) -> ZonewardController:
        """The command as the Deployment has it, except the address that it listens on."""
        configuration = folder / "configuration.yaml"
        (text,) = the("ConfigMap", self.mode)["data"].values()
        configuration.write_text(text)
        _, *arguments = container(self.mode)["args"]
        given = [
            re.sub(r"^--config=.*", f"--config={configuration}", argument)
            for argument in arguments
            if not argument.startswith("--listen") and argument != f"--{self.mode}"
        ]
        lease = ("--leader-elect-resource-namespace", self.home)
        return ZonewardController(self.plane, *given, *lease, *flags, mode=self.mode, user=user, elects=True)

    def asked(self, user: str) -> tuple[set[Right], list[str]]:
        """The permissions that a user used, and the requests that the server refused."""
        used, refused = set(), []
        for entry in self.audit.entries():
            about = entry["objectRef"]
            if entry["user"]["username"] != user:
                continue
            resource = "/".join(filter(None, (about["resource"], about.get("subresource"))))
            right = about.get("apiGroup", ""), resource, entry["verb"]
            used.add(right)
            if entry["responseStatus"]["code"] in (401, 403):
                refused.append(f"{right}: {entry['responseStatus'].get('message')}")
        return used, refused

    def wait_until_used(self, user: str, rights: set[Right]) -> None:
        """Wait until the audit log shows it: of a watch, once it has ended, which the server sees after the client."""
        self.plane.wait_until(lambda: rights <= self.asked(user)[0], what=f"permissions that {user} used")

    def updates(self, slice_: Object) -> int:
        """How often a slice was written since it was made."""
        name = slice_["metadata"]["name"]
        return sum(
            (entry["verb"], entry["objectRef"].get("name")) == ("update", name) for entry in self.audit.entries()
        )

    def own_slices(self, service: str = "cart") -> list[Object]:
        return self.slices(service, names.MANAGER)

    def count(self, service: str = "cart") -> tuple[int, int]:
        """The number of ready endpoints in Zoneward's slices, and of ready addresses in the Endpoints object."""
        return len(ready_addresses(self.own_slices(service))), len(self.listed(service))

    def events(self) -> int:
        """The number of Zoneward's Events about Services; repeated ones count each time. The built-in controller writes
        Events too, when another writer changes a slice."""
        events = self.items("/apis/events.k8s.io/v1/{}/events")
        own = (event for event in events if event.get("reportingController") == CONTROLLER)
        return sum((event.get("series") or {"count": 1})["count"] for event in own)

    def create(self, name: str = "cart", **annotations: str) -> None:
        self.api.create(a_service(name, namespace=NAMESPACE, selector=LABELS, annotations=annotations))

    def annotate(self, annotations: Object, service: str = "cart") -> None:
        self.api.patch(_service(service), {"metadata": {"annotations": annotations}}, content_type=MERGE_PATCH)


def _service(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": NAMESPACE}}


@contextmanager
def a_cluster(folder: Path, mode: str, **options: object) -> Iterator[Cluster]:
    audit = AuditLog(folder, {"level": "Metadata"})
    flags = (*audit.flags, "--enable-admission-plugins=OwnerReferencesPermissionEnforcement")
    with ControlPlane(server_flags=flags, **options) as plane:  # type: ignore[arg-type]
        cluster = Cluster(plane, audit, mode)
        for document in (NAMESPACES, mode):
            cluster.plane.kubectl("apply", "--kustomize", str(DEPLOY / document), "--validate=strict")
        cluster.api.create_all(a_shop(NAMESPACE, PODS))
        yield cluster


@pytest.fixture(scope="module")
def taken_over(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with a_cluster(tmp_path_factory.mktemp("take-over"), TAKE_OVER, users=["less"]) as cluster:
        yield cluster


def test_server_accepts_every_manifest_and_a_pod_of_the_deployment(taken_over: Cluster) -> None:
    template = the("Deployment", TAKE_OVER)["spec"]["template"]
    pod: Object = {"apiVersion": "v1", "kind": "Pod", **template}
    pod["metadata"] = template["metadata"] | {"name": "controller-0", "namespace": taken_over.home}
    path = f"/api/v1/namespaces/{taken_over.home}/pods"
    strict = {"dryRun": "All", "fieldValidation": "Strict"}
    taken_over.api.request("POST", path, pod, query=strict)
    # The namespace's standard is in force, or this would mean nothing.
    pod["spec"] = template["spec"] | {"hostNetwork": True}
    with pytest.raises(ApiError, match="violates PodSecurity"):
        taken_over.api.request("POST", path, pod, query=strict)
    taken_over.plane.kubectl("apply", "--kustomize", str(DEPLOY / ONLY_MARKED), "--validate=strict", "--dry-run=server")


def test_roles_of_take_over_are_enough_and_all_used(taken_over: Cluster, tmp_path: Path) -> None:
    account = taken_over.account()
    with taken_over.controller(account, tmp_path) as controller:
        _scene(taken_over, controller, account.name)
        assert controller.metric("zoneward_controller_api_errors_total", kind="refused") == 0
        assert controller.terminate() == 0
    taken_over.wait_until_used(account.name, granted(TAKE_OVER) - SELDOM - {ADMITTED})
    used, refused = taken_over.asked(account.name)
    assert refused == []
    assert controller.logged("missing permission") == []
    assert used | SELDOM | {ADMITTED} == granted(TAKE_OVER) | {FREE}


def _scene(cluster: Cluster, controller: ZonewardController, account: str) -> None:
    wait = controller.wait_until
    cluster.create()
    wait(lambda: cluster.count()[0] == PODS, what="slices")
    cluster.annotate({names.SUBSETTING_ANNOTATION: "Auto"})
    wait(lambda: len(cluster.own_slices()) == 3, what="a slice for each zone")
    cluster.annotate({names.SUBSETTING_ANNOTATION: None})
    wait(lambda: len(cluster.own_slices()) == 1, what="one slice")
    for count, value in enumerate(("Auto", None, "Auto", None), 1):
        cluster.annotate({names.TOPOLOGY_MODE_ANNOTATION: value})
        wait(lambda count=count: cluster.events() >= count, what=f"Event {count}: {value}")  # type: ignore[misc]
    cluster.annotate({names.TOPOLOGY_MODE_ANNOTATION: "Auto"})
    wait(lambda: cluster.conditions("cart").get(names.PROGRAMMED_CONDITION) == "Enabled", what="a condition")
    cluster.make_ready("cart-0", False)
    wait(lambda: cluster.count()[0] == PODS - 1, what="a Pod that is not ready")
    cluster.make_ready("cart-0", True)
    wait(lambda: cluster.count()[0] == PODS, what="all Pods")
    cluster.api.delete(_service("cart"))
    wait(lambda: not cluster.own_slices(), what="no slices of a Service that is gone")
    # One that was adopted before the whole cluster was taken over.
    cluster.api.create(a_service("kept", namespace=NAMESPACE, annotations=MARKS))
    wait(lambda: cluster.count("kept")[1] == PODS, what="an Endpoints object")
    cluster.make_ready("cart-0", False)
    wait(lambda: cluster.count("kept")[1] == PODS - 1, what="one address less")
    cluster.make_ready("cart-0", True)
    cluster.api.delete(_service("kept"))
    wait(lambda: cluster.endpoints("kept") is None, what="no Endpoints object of a Service that is gone")
    # An API server deletes that of a Service as well, and is faster.
    wait(lambda: ("", "endpoints", "delete") in cluster.asked(account)[0], what="a deletion")


def test_moving_from_the_annotation_to_the_field_writes_each_slice_once(taken_over: Cluster, tmp_path: Path) -> None:
    """As `docs/moving-from-topology-mode.md` has it, with the commands that it has."""
    commands = re.findall(r"^ *kubectl ((?:patch|annotate) .*)$", MOVING.read_text(), re.MULTILINE)
    field, annotation, back = (shlex.split(command) for command in commands)
    with taken_over.controller(taken_over.account(), tmp_path) as controller:
        wait = controller.wait_until
        taken_over.create("search", **{names.TOPOLOGY_MODE_ANNOTATION: "Auto"})
        wait(partial(_is_in_force, taken_over, "Hints/ProportionalZoneCPU"), what="hints from demand")
        (remaining,) = taken_over.own_slices("search")
        before = taken_over.updates(remaining)
        for step, in_force in ((field, "Hints"), (annotation, "TrafficDistribution/PreferSameZone"), (back, "Hints")):
            taken_over.plane.kubectl(*step)
            wait(partial(_is_in_force, taken_over, in_force), what=in_force)
        assert taken_over.updates(remaining) == before + 2
        taken_over.api.delete(_service("search"))
        wait(lambda: not taken_over.own_slices("search"), what="no slices of a Service that is gone")
        controller.terminate()


def _is_in_force(cluster: Cluster, approach: str) -> bool:
    """Whether slices and condition say so."""
    conditions = cluster.service("search")["status"].get("conditions", ())
    said = [condition["message"] for condition in conditions if condition["type"] == names.PROGRAMMED_CONDITION]
    slices = cluster.own_slices("search")
    written = [slice_["metadata"]["annotations"].get(names.APPROACH_ANNOTATION, "") for slice_ in slices]
    return any(said) and all(condition.startswith(approach) for condition in (*said, *written))


def test_log_names_missing_permissions(taken_over: Cluster, tmp_path: Path) -> None:
    permissions = ("endpointslices", "create"), ("events", "create")
    lacking = {right for right in granted(TAKE_OVER) if right[1:] in permissions}
    assert len(lacking) == 2
    rules = [
        {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
        for group, resource, verb in granted(TAKE_OVER) - lacking
    ]
    taken_over.plane.allow("less", rules, until="/api/v1/services")
    with taken_over.controller("less", tmp_path, "--leader-elect-resource-name=less") as controller:
        controller.wait_until(lambda: len(controller.logged("missing permission")) == 2, what="two missing permissions")
        said = " ".join(record["reason"] for record in controller.logged("missing permission"))
    assert all(resource in said for _, resource, _ in lacking)


# --- the other modes --------------------------------------------------------------------------------------------------


def test_roles_of_only_marked_are_enough_and_all_used(tmp_path: Path) -> None:
    controllers = ("endpoints-controller", *SLICE_CONTROLLERS)
    with a_cluster(tmp_path, ONLY_MARKED, controllers=controllers) as cluster:
        for name in ("cart", "kept"):
            cluster.create(name)
            cluster.plane.wait_until(partial(_is_built_in, cluster, name), what="slices of the built-in controller")
        cluster.plane.zoneward("adopt", "--force", f"{NAMESPACE}/cart")
        # An Endpoints object that was deleted first is created again.
        for policy in ("delete", "keep"):
            cluster.plane.zoneward("adopt", "--force", f"{NAMESPACE}/kept", f"--endpoints={policy}")
        account = cluster.account()
        with cluster.controller(account, tmp_path) as controller:
            wait = controller.wait_until
            wait(lambda: cluster.count("kept")[1] == PODS, what="an Endpoints object")
            cluster.make_ready("cart-0", False)
            wait(lambda: cluster.count() == (PODS - 1, PODS - 1), what="a Pod that is not ready")
            cluster.make_ready("cart-0", True)
            wait(lambda: cluster.count("kept")[0] == PODS == cluster.count()[0], what="all Pods")
            for count, value in enumerate(("Auto", None, "Auto", None), 1):
                cluster.annotate({names.TOPOLOGY_MODE_ANNOTATION: value})
                wait(lambda count=count: cluster.events() >= count, what=f"Event {count}: {value}")  # type: ignore[misc]
            cluster.annotate({names.SUBSETTING_ANNOTATION: "Auto"}, "kept")
            wait(lambda: len(cluster.own_slices("kept")) == 3, what="a slice for each zone")
            wait(lambda: names.PROGRAMMED_CONDITION in cluster.conditions("kept"), what="a condition")
            cluster.api.patch(_service("cart"), {"spec": {"selector": LABELS}})
            wait(lambda: not cluster.own_slices(), what="a Service that is given back")
            wait(lambda: not _marks(cluster, "cart"), what="a Service without marks")
            cluster.api.delete(_service("kept"))
            wait(lambda: not cluster.own_slices("kept"), what="no slices of a Service that is gone")
            wait(lambda: ("", "endpoints", "delete") in cluster.asked(account.name)[0], what="a deletion")
            assert controller.metric("zoneward_controller_api_errors_total", kind="refused") == 0
            assert controller.terminate() == 0
        cluster.wait_until_used(account.name, granted(ONLY_MARKED) - SELDOM - {ADMITTED})
        used, refused = cluster.asked(account.name)
        assert refused == []
        assert controller.logged("missing permission") == []
        assert used | SELDOM | {ADMITTED} == granted(ONLY_MARKED) | {FREE}


def _is_built_in(cluster: Cluster, name: str) -> bool:
    return len(cluster.ready(name, names.BUILT_IN_MANAGER)) == PODS == len(cluster.listed(name))


def _marks(cluster: Cluster, name: str) -> list[str]:
    annotations = cluster.service(name)["metadata"].get("annotations") or {}
    return [annotation for annotation in annotations if annotation.startswith(names.DOMAIN)]


def test_roles_of_overlay_are_enough_and_all_used(tmp_path: Path) -> None:
    with a_cluster(tmp_path, "overlay", controllers=("endpoints-controller", *SLICE_CONTROLLERS)) as cluster:
        account = cluster.account()
        cluster.create(**{names.OVERLAY_MARK: "enabled"})
        with cluster.controller(account, tmp_path) as controller:
            for count, value in enumerate(("Auto", None, "Auto"), 1):
                cluster.annotate({names.TOPOLOGY_MODE_ANNOTATION: value})
                controller.wait_until(lambda count=count: cluster.events() >= count, what=f"Event {count}: {value}")  # type: ignore[misc]
            # Its entries change while the ConfigMap of the namespace stays.
            cluster.annotate({names.TOPOLOGY_MODE_ANNOTATION: "zoneward.dev/Balanced"})
            controller.wait_until(lambda: "Balanced" in str(_entries(cluster)), what="other entries")
            cluster.annotate({names.OVERLAY_MARK: "disabled"})
            controller.wait_until(lambda: not _entries(cluster), what="no entries")
            assert controller.terminate() == 0
        # An API server checks `create` for a patch that creates.
        seldom = SELDOM | {("", "configmaps", "create"), ("", "configmaps", "list"), ("", "namespaces", "list")}
        cluster.wait_until_used(account.name, granted("overlay") - seldom)
        used, refused = cluster.asked(account.name)
    assert refused == []
    assert controller.logged("missing permission") == []
    assert used | (seldom & granted("overlay")) == granted("overlay") | {FREE}


def _entries(cluster: Cluster) -> Object:
    answer = cluster.api.send("GET", f"/api/v1/namespaces/{NAMESPACE}/configmaps/{names.OVERLAY_CONFIG_MAP}")
    return answer.object.get("data") or {} if answer.code == 200 else {}


def test_mode_changes_with_the_commands_of_the_readme(tmp_path: Path) -> None:
    readme = (DEPLOY / "README.md").read_text()
    text = readme[readme.index("To change the mode") :]
    commands = re.findall(r"^kubectl (.* -k .*)$", text, re.MULTILINE)[:2]
    remove, apply = (shlex.split(command, comments=True) for command in commands)
    with a_cluster(tmp_path, "overlay", controllers=("endpoints-controller", *SLICE_CONTROLLERS)) as cluster:
        for command, folder in ((remove, "overlay"), (apply, ONLY_MARKED)):
            cluster.plane.kubectl(*(str(DEPLOY / folder) if word == "." else word for word in command))
        cluster.mode = ONLY_MARKED
        cluster.create()
        cluster.plane.wait_until(partial(_is_built_in, cluster, "cart"), what="slices of the built-in controller")
        cluster.plane.zoneward("adopt", "--force", f"{NAMESPACE}/cart")
        with cluster.controller(cluster.account(), tmp_path) as controller:
            cluster.make_ready("cart-0", False)
            controller.wait_until(lambda: cluster.count()[0] == PODS - 1, what="a Pod that is not ready")


# --- the admission policy ---------------------------------------------------------------------------------------------


def test_policy_limits_which_fields_of_a_service_the_controller_changes(tmp_path: Path) -> None:
    with a_cluster(tmp_path, ONLY_MARKED) as cluster:
        _try_policy(cluster, cluster.plane.api(cluster.account()))


def _try_policy(cluster: Cluster, as_controller: Api) -> None:
    name = "guarded"
    balanced = a_service(name, namespace=NAMESPACE, selector=LABELS, annotations={"team": "a"}, type="LoadBalancer")
    cluster.api.create(balanced)
    cluster.plane.wait_until(
        lambda: _denied(as_controller, name, {"spec": {"externalIPs": ["192.0.2.1"]}}), what="the policy"
    )
    for change in (
        {"spec": {"type": "NodePort"}},
        {"spec": {"selector": {"app": "other"}}},
        {"spec": {"selector": None}},
        {"spec": {"selector": None}, "metadata": {"annotations": {SELECTOR_ANNOTATION: '{"app":"other"}'}}},
        {"spec": {"externalTrafficPolicy": None, "internalTrafficPolicy": "Local"}},
        {"metadata": {"labels": {"app": "cart"}}},
        {"metadata": {"annotations": {"team": None}}},
        {"metadata": {"annotations": {"service.kubernetes.io/topology-mode": "Auto"}}},
        {"metadata": {"finalizers": ["example.com/held"]}},
    ):
        assert _denied(as_controller, name, change), change
    for status in (
        {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}},
        {"conditions": [_condition("example.com/Other")]},
    ):
        assert _denied(as_controller, name, {"status": status}, "/status"), status
    assert _denied(as_controller, name, {"metadata": {"labels": {"app": "cart"}}}, "/status")

    # Writes of others stay, and its own are allowed: the steps of an adoption and of a release, and conditions.
    others = {"status": {"conditions": [_condition("example.com/Other")]}}
    cluster.api.request("PATCH", _path(name) + "/status", others, content_type=STRATEGIC_PATCH)
    marks = {SELECTOR_ANNOTATION: encode_selector(LABELS), ENDPOINTS_ANNOTATION: "keep"}
    for change in (
        {"metadata": {"labels": {SKIP_MIRROR_LABEL: "true"}, "annotations": {ENDPOINTS_ANNOTATION: "keep"}}},
        {"metadata": {"annotations": marks}, "spec": {"selector": None}},
        {"spec": {"selector": LABELS}},
        {"metadata": {"labels": {SKIP_MIRROR_LABEL: None}, "annotations": dict.fromkeys(marks)}},
    ):
        as_controller.request("PATCH", _path(name), change, content_type=MERGE_PATCH)
    own = {"status": {"conditions": [_condition(names.ACCEPTED_CONDITION)]}}
    as_controller.request("PATCH", _path(name) + "/status", own, content_type=STRATEGIC_PATCH)
    assert cluster.conditions(name).keys() == {"example.com/Other", names.ACCEPTED_CONDITION}
    assert _denied(as_controller, name, {"status": {"conditions": None}}, "/status")
    # The policy does not apply to other users.
    assert not _denied(cluster.api, name, {"spec": {"externalIPs": ["192.0.2.1"]}})


def _path(name: str) -> str:
    return f"/api/v1/namespaces/{NAMESPACE}/services/{name}"


def _condition(type_: str) -> Object:
    return {"type": type_, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "A", "message": ""}


def _denied(api: Api, name: str, change: Object, subresource: str = "") -> bool:
    """Whether the policy denies a patch, which changes nothing."""
    path, dry = _path(name) + subresource, {"dryRun": "All"}
    try:
        api.request("PATCH", path, change, content_type=MERGE_PATCH, query=dry)
    except ApiError as error:
        return "ValidatingAdmissionPolicy 'zoneward-controller'" in str(error)
    return False
