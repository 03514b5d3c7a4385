"""What is absent in a pod gets its default: as upstream's ``SetDefaults_*`` and conversions do.

Each function changes its argument in place, and changes nothing the second time. What is empty is absent here, and what
upstream always writes is present: `zoneward.sandbox.server.schema` has seen to that, and to how amounts are spelt.
"""

import re
from fractions import Fraction
from typing import Final

from zoneward.kube import quantity
from zoneward.sandbox.server.kinds import Object
from zoneward.sandbox.server.rules.pod_quantities import round_up, spelt

_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_TIMES: Final = (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3))
_HOOKS: Final = ("postStart", "preStop")
_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")
_STATUSES: Final = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
_WITH_MODE: Final = ("secret", "configMap", "downwardAPI", "projected")
_VOLUME_TEXTS: Final[dict[str, Object]] = {
    "hostPath": {"type": ""},
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk": {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}

_PART: Final = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_HOST: Final = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_IMAGE: Final = re.compile(
    rf"(?:(?:{_HOST}(?:\.{_HOST})*|\[[0-9a-fA-F:]+\])(?::[0-9]+)?/)?{_PART}(?:/{_PART})*(?P<tag>:[\w][\w.-]{{0,127}})?"
    r"(?P<digest>@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?",
    re.ASCII,
)


def default_spec(spec: Object) -> None:
    """All but what admission adds (tolerations, priority)."""
    for field, value in (
        ("restartPolicy", "Always"),
        ("dnsPolicy", "ClusterFirst"),
        ("schedulerName", "default-scheduler"),
    ):
        if not spec.get(field):
            spec[field] = value
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is None or grace < 0:
        spec["terminationGracePeriodSeconds"] = 30 if grace is None else 1
    if spec.get("enableServiceLinks") is None:
        spec["enableServiceLinks"] = True
    if spec.get("securityContext") is None:
        spec["securityContext"] = {}
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for kind in _CONTAINERS:
        for container in spec.get(kind) or ():
            _container(container, takes_limits=kind != "ephemeralContainers")
    if spec.get("hostNetwork"):
        _ports_of_host(spec)
    if spec.get("resources"):
        _pod_resources(spec)
    round_up(spec, "overhead")
    for volume in spec.get("volumes") or ():
        _volume(volume)


def default_status(status: Object) -> None:
    """The first of several addresses is the one that stands alone."""
    addresses = status.get("podIPs")
    address = status.get("podIP")
    if address:
        if not addresses or addresses[0].get("ip") != address:
            status["podIPs"] = [{"ip": address}]
    elif addresses and addresses[0].get("ip"):
        status["podIP"] = addresses[0]["ip"]
    for kind in _STATUSES:
        for each in status.get(kind) or ():
            round_up(each, "allocatedResources")
            if resources := each.get("resources"):
                round_up(resources, "limits")
                round_up(resources, "requests")


def image_pull_policy(image: str) -> str:
    """``Always`` for the tag ``latest``, which is that of an image with neither tag nor digest."""
    match = _IMAGE.fullmatch(image)
    if match is None or re.fullmatch("[a-f0-9]{64}", image):
        return "IfNotPresent"
    is_latest = match["tag"] == ":latest" or not (match["tag"] or match["digest"])
    return "Always" if is_latest else "IfNotPresent"


# --- containers -------------------------------------------------------------------------------------------------------


def _container(container: Object, *, takes_limits: bool) -> None:
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = image_pull_policy(container.get("image") or "")
    if not container.get("terminationMessagePath"):
        container["terminationMessagePath"] = "/dev/termination-log"
    if not container.get("terminationMessagePolicy"):
        container["terminationMessagePolicy"] = "File"
    resources = container.get("resources")
    if resources:
        _resources(resources, takes_limits=takes_limits)
    elif resources is None:
        container["resources"] = {}
    for port in container.get("ports") or ():
        if not port.get("protocol"):
            port["protocol"] = "TCP"
    for variable in container.get("env") or ():
        if source := variable.get("valueFrom"):
            _references(source)
            if (file := source.get("fileKeyRef")) is not None and file.get("optional") is None:
                file["optional"] = False
    for kind in _PROBES:
        if (probe := container.get(kind)) is not None:
            _probe(probe)
    if hooks := container.get("lifecycle"):
        for kind in _HOOKS:
            if hook := hooks.get(kind):
                _request(hook)


def _probe(probe: Object) -> None:
    for field, value in _TIMES:
        if not probe.get(field):
            probe[field] = value
    _request(probe)
    if (call := probe.get("grpc")) is not None and call.get("service") is None:
        call["service"] = ""


def _request(handler: Object) -> None:
    if (request := handler.get("httpGet")) is not None:
        if not request.get("path"):
            request["path"] = "/"
        if not request.get("scheme"):
            request["scheme"] = "HTTP"


def _references(source: Object) -> None:
    """What the downward API is asked for, by a variable or by a file."""
    if (reference := source.get("fieldRef")) is not None and not reference.get("apiVersion"):
        reference["apiVersion"] = "v1"
    if (reference := source.get("resourceFieldRef")) is not None and reference.get("divisor") is None:
        reference["divisor"] = "0"


def _ports_of_host(spec: Object) -> None:
    # With copies: whether the pod is on the host's network may be all that is new about it.
    for kind in ("initContainers", "containers"):
        containers = spec.get(kind) or ()
        if any(not port.get("hostPort") for container in containers for port in container.get("ports") or ()):
            spec[kind] = [container | _with_host_ports(container) for container in containers]


def _with_host_ports(container: Object) -> Object:
    ports = container.get("ports")
    if not ports:
        return {}
    return {"ports": [port if port.get("hostPort") else port | _host_port(port) for port in ports]}


def _host_port(port: Object) -> Object:
    number = port.get("containerPort")
    return {"hostPort": number} if number else {}


# --- resources --------------------------------------------------------------------------------------------------------


def _resources(resources: Object, *, takes_limits: bool) -> None:
    round_up(resources, "requests")
    round_up(resources, "limits")
    limits = resources.get("limits")
    if limits and takes_limits:
        requests = resources.get("requests")
        if requests is None:
            resources["requests"] = dict(limits)
        elif not requests.keys() >= limits.keys():
            resources["requests"] = limits | requests


def _pod_resources(spec: Object) -> None:
    """Requests of the whole pod: those of its containers together, or its limits."""
    resources = dict(spec["resources"])
    round_up(resources, "limits")
    round_up(resources, "requests")
    requests = dict(resources.get("requests") or {})
    for name, amount in requested_by_containers(spec).items():
        if name not in requests and (name in ("cpu", "memory") or name.startswith("hugepages-")):
            requests[name] = amount
    for name, written in (resources.get("limits") or {}).items():
        requests.setdefault(name, written)
    if requests:
        resources["requests"] = requests
    if resources != spec["resources"]:
        spec["resources"] = resources


def requested_by_containers(spec: Object) -> dict[str, str]:
    """The most that all containers ask for at any time: init containers run before the others, one by one."""
    running: dict[str, Fraction] = {}
    for container in spec.get("containers") or ():
        for name, amount in _requests(container).items():
            running[name] = running.get(name, Fraction(0)) + amount
    sidecars: dict[str, Fraction] = {}
    peak: dict[str, Fraction] = {}
    for container in spec.get("initContainers") or ():
        asked = _requests(container)
        if container.get("restartPolicy") == "Always":
            for name, amount in asked.items():
                running[name] = running.get(name, Fraction(0)) + amount
                sidecars[name] = sidecars.get(name, Fraction(0)) + amount
            asked = sidecars
        else:
            asked = {name: asked.get(name, Fraction(0)) + sidecars.get(name, Fraction(0)) for name in asked | sidecars}
        for name, amount in asked.items():
            peak[name] = max(peak.get(name, Fraction(0)), amount)
    together = {name: max(running.get(name, Fraction(0)), peak.get(name, Fraction(0))) for name in running | peak}
    return {name: spelt(amount, is_binary=_is_binary(spec, name)) for name, amount in together.items()}


def _requests(container: Object) -> dict[str, Fraction]:
    requests = (container.get("resources") or {}).get("requests") or {}
    return {name: quantity.parse(written) for name, written in requests.items()}


def _is_binary(spec: Object, name: str) -> bool:
    """A sum is written with the kind of suffix that its first part has."""
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        written = ((container.get("resources") or {}).get("requests") or {}).get(name)
        if written is not None:
            return str(written).endswith("i")
    return False


# --- volumes ----------------------------------------------------------------------------------------------------------


def _volume(volume: Object) -> None:
    if not any(value is not None for field, value in volume.items() if field != "name"):
        volume["emptyDir"] = {}
        return
    for kind in _WITH_MODE:
        if (source := volume.get(kind)) is not None:
            if source.get("defaultMode") is None:
                source["defaultMode"] = 420
            for item in source.get("items") or ():
                _references(item)
            if kind == "projected":
                _projected(source)
            return
    if (image := volume.get("image")) is not None:
        if not image.get("pullPolicy"):
            image["pullPolicy"] = image_pull_policy(image.get("reference") or "")
    elif (ephemeral := volume.get("ephemeral")) is not None:
        _claim_template(ephemeral.get("volumeClaimTemplate"))
    for kind, texts in _VOLUME_TEXTS.items():
        if (source := volume.get(kind)) is not None:
            for field, value in texts.items():
                if not source.get(field) and source.get(field) != value:
                    source[field] = value


def _projected(source: Object) -> None:
    for part in source.get("sources") or ():
        if (token := part.get("serviceAccountToken")) is not None and token.get("expirationSeconds") is None:
            token["expirationSeconds"] = 3600
        for item in (part.get("downwardAPI") or {}).get("items") or ():
            _references(item)


def _claim_template(template: Object | None) -> None:
    claim = (template or {}).get("spec")
    if claim is not None:
        if not claim.get("volumeMode"):
            claim["volumeMode"] = "Filesystem"
        resources = claim.get("resources") or {}
        round_up(resources, "limits")
        round_up(resources, "requests")
