"""Judging the containers of pods, in upstream's order and words. Image references are not: upstream does not either."""

from collections.abc import Iterator, Mapping
from typing import Final

from zoneward.kube import formats
from zoneward.kube.validation import FieldError
from zoneward.sandbox.server.kinds import Object
from zoneward.sandbox.server.rules import pod_formats
from zoneward.sandbox.server.rules.pod_diff import internal
from zoneward.sandbox.server.rules.pod_errors import (
    all_invalid,
    duplicate,
    forbidden,
    invalid,
    required,
    unsupported,
)
from zoneward.sandbox.server.rules.pod_references import field_errors, key_errors, resource_field_errors
from zoneward.sandbox.server.rules.pod_resources import resize_policy_errors, resource_errors
from zoneward.sandbox.server.rules.pod_volumes import mount_errors

_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_IN_VARIABLES: Final = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
_ONLY_SIDECARS: Final = "may not be set for init containers without restartPolicy=Always"


def container_errors(spec: Object, field: str, volumes: Mapping[str, Object]) -> Iterator[FieldError]:
    """``containers`` and ``initContainers``; ``volumes`` are those that can be mounted, by name."""
    containers, before = spec.get("containers") or [], spec.get("initContainers") or []
    if not containers:
        yield required(f"{field}.containers")
    names: set[str] = set()
    for index, container in enumerate(containers):
        here, name = f"{field}.containers[{index}]", container.get("name") or ""
        yield from _common(container, here, volumes, spec)
        if name in names:
            yield duplicate(f"{here}.name", name)
        names.add(name)
        yield from _hooks_and_probes(container, here, spec)
        yield from _restart_policy(container, here)
    yield from _host_ports(containers, f"{field}.containers")
    for index, container in enumerate(before):
        here, name = f"{field}.initContainers[{index}]", container.get("name") or ""
        yield from _common(container, here, volumes, spec)
        yield from _restart_policy(container, here)
        if name in names:
            yield duplicate(f"{here}.name", name)
        elif name:
            names.add(name)
        yield from _host_ports([container], f"{field}.initContainers")
        if container.get("restartPolicy") == "Always":
            yield from _hooks_and_probes(container, here, spec)
        else:
            for kind in ("lifecycle", *_PROBES):
                if container.get(kind) is not None:
                    yield forbidden(f"{here}.{kind}", _ONLY_SIDECARS)


def image_errors(spec: Object, field: str) -> Iterator[FieldError]:
    """Blanks around images, which templates may have and pods may not."""
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(kind) or ()):
            image = container.get("image") or ""
            if image != image.strip():
                yield invalid(f"{field}.{kind}[{index}].image", image, "must not have leading or trailing whitespace")


def host_network_errors(spec: Object, field: str) -> Iterator[FieldError]:
    if not spec.get("hostNetwork"):
        return
    for index, container in enumerate(spec.get("containers") or ()):
        for number, port in enumerate(container.get("ports") or ()):
            on_host = port.get("hostPort") or 0
            if on_host != (port.get("containerPort") or 0):
                rule = "must match `containerPort` when `hostNetwork` is true"
                yield invalid(f"{field}.containers[{index}].ports[{number}].hostPort", on_host, rule)


def _common(container: Object, field: str, volumes: Mapping[str, Object], spec: Object) -> Iterator[FieldError]:
    name = container.get("name") or ""
    if not name:
        yield required(f"{field}.name")
    else:
        yield from all_invalid(f"{field}.name", name, formats.label_problems(name))
    if not container.get("image"):
        yield required(f"{field}.image")
    policy = container.get("terminationMessagePolicy")
    if policy not in ("File", "FallbackToLogsOnError"):
        yield unsupported(f"{field}.terminationMessagePolicy", policy or "", ("File", "FallbackToLogsOnError"))
    yield from _ports(container.get("ports") or (), f"{field}.ports")
    yield from _variables(container.get("env") or (), f"{field}.env")
    yield from _variables_from(container.get("envFrom") or (), f"{field}.envFrom")
    yield from mount_errors(container, field, volumes)
    pulling = container.get("imagePullPolicy")
    if pulling not in ("Always", "IfNotPresent", "Never"):
        yield unsupported(f"{field}.imagePullPolicy", pulling or "", ("Always", "IfNotPresent", "Never"))
    if resources := container.get("resources"):
        yield from resource_errors(resources, f"{field}.resources")
    if policies := container.get("resizePolicy"):
        yield from resize_policy_errors(policies, f"{field}.resizePolicy", spec["restartPolicy"])
    if security := container.get("securityContext"):
        yield from _security(security, f"{field}.securityContext")


def _restart_policy(container: Object, field: str) -> Iterator[FieldError]:
    policy = container.get("restartPolicy")
    if policy is not None and policy not in ("Always", "Never", "OnFailure"):
        yield unsupported(f"{field}.restartPolicy", policy, ("Always", "Never", "OnFailure"))
    if policy is None and container.get("restartPolicyRules"):
        yield required(f"{field}.restartPolicy", "must specify restartPolicy when restart rules are used")


def _security(security: Object, field: str) -> Iterator[FieldError]:
    for who in ("runAsUser", "runAsGroup"):
        yield from user_errors(security.get(who), f"{field}.{who}")
    mount = security.get("procMount")
    if mount is not None and mount not in ("Default", "Unmasked"):
        yield unsupported(f"{field}.procMount", mount, ("Default", "Unmasked"))
    if security.get("allowPrivilegeEscalation") is False:
        rule = "cannot set `allowPrivilegeEscalation` to false and"
        within = internal(security, "SecurityContext")
        if security.get("privileged"):
            yield invalid(field, within, f"{rule} `privileged` to true")
        if "CAP_SYS_ADMIN" in ((security.get("capabilities") or {}).get("add") or ()):
            yield invalid(field, within, f"{rule} `capabilities.Add` CAP_SYS_ADMIN")


def user_errors(number: int | None, field: str) -> Iterator[FieldError]:
    """The number of a user or group."""
    if number is not None and not 0 <= number < 1 << 31:
        yield invalid(field, number, pod_formats.range_problem(0, (1 << 31) - 1))


# --- ports ------------------------------------------------------------------------------------------------------------


def _ports(ports: list[Object] | tuple[()], field: str) -> Iterator[FieldError]:
    names: set[str] = set()
    for index, port in enumerate(ports):
        here, name, number = f"{field}[{index}]", port.get("name") or "", port.get("containerPort") or 0
        if name:
            problems = list(pod_formats.port_name_problems(name))
            yield from all_invalid(f"{here}.name", name, problems)
            if not problems and name in names:
                yield duplicate(f"{here}.name", name)
            elif not problems:
                names.add(name)
        if not number:
            yield required(f"{here}.containerPort")
        else:
            yield from all_invalid(f"{here}.containerPort", number, pod_formats.port_number_problems(number))
        if on_host := port.get("hostPort"):
            yield from all_invalid(f"{here}.hostPort", on_host, pod_formats.port_number_problems(on_host))
        protocol = port.get("protocol")
        if protocol not in ("SCTP", "TCP", "UDP"):
            yield unsupported(f"{here}.protocol", protocol or "", ("SCTP", "TCP", "UDP"))


def _host_ports(containers: list[Object], field: str) -> Iterator[FieldError]:
    # Of init containers upstream shows the first index for each: they are judged one by one.
    taken: set[str] = set()
    for index, container in enumerate(containers):
        for number, port in enumerate(container.get("ports") or ()):
            if on_host := port.get("hostPort"):
                said = f"{port.get('protocol')}/{port.get('hostIP') or ''}/{on_host}"
                if said in taken:
                    yield duplicate(f"{field}[{index}].ports[{number}].hostPort", said)
                taken.add(said)


def _port_reference(port: int | str | None, field: str) -> Iterator[FieldError]:
    port = 0 if port is None else port
    if isinstance(port, str):
        yield from all_invalid(field, port, pod_formats.port_name_problems(port))
    else:
        yield from all_invalid(field, port, pod_formats.port_number_problems(port))


# --- variables --------------------------------------------------------------------------------------------------------


def _variables(variables: list[Object] | tuple[()], field: str) -> Iterator[FieldError]:
    for index, variable in enumerate(variables):
        here, name = f"{field}[{index}]", variable.get("name") or ""
        if not name:
            yield required(f"{here}.name")
        else:
            yield from all_invalid(f"{here}.name", name, pod_formats.variable_problems(name))
        if (source := variable.get("valueFrom")) is not None:
            yield from _source(variable, source, f"{here}.valueFrom")


def _source(variable: Object, source: Object, field: str) -> Iterator[FieldError]:
    kinds = [kind for kind in _SOURCES if source.get(kind) is not None]
    for kind in kinds:
        reference, here = source[kind], f"{field}.{kind}"
        match kind:
            case "fieldRef":
                yield from field_errors(reference, here, _IN_VARIABLES)
            case "resourceFieldRef":
                yield from resource_field_errors(reference, here)
            case "configMapKeyRef" | "secretKeyRef":
                yield from key_errors(reference, here)
    if not kinds:
        listed = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        yield invalid(field, "", f"must specify one of: {listed}")
    elif variable.get("value"):
        yield invalid(field, "", "may not be specified when `value` is not empty")
    elif len(kinds) > 1:
        yield invalid(field, "", "may not have more than one field specified at a time")


def _variables_from(sources: list[Object] | tuple[()], field: str) -> Iterator[FieldError]:
    for index, source in enumerate(sources):
        here = f"{field}[{index}]"
        if prefix := source.get("prefix"):
            yield from all_invalid(f"{here}.prefix", prefix, pod_formats.variable_problems(prefix))
        kinds = [kind for kind in ("configMapRef", "secretRef") if source.get(kind) is not None]
        for kind in kinds:
            name = source[kind].get("name") or ""
            if not name:
                yield required(f"{here}.{kind}.name")
            else:
                yield from all_invalid(f"{here}.{kind}.name", name, formats.subdomain_problems(name))
        if not kinds:
            yield invalid(field, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(kinds) > 1:
            yield invalid(field, "", "may not have more than one field specified at a time")


# --- hooks and probes -------------------------------------------------------------------------------------------------


def _hooks_and_probes(container: Object, field: str, spec: Object) -> Iterator[FieldError]:
    for kind in ("postStart", "preStop"):
        hook = (container.get("lifecycle") or {}).get(kind)
        if hook is not None:
            yield from _handler(hook, f"{field}.lifecycle.{kind}", spec)
    for kind in _PROBES:
        if (probe := container.get(kind)) is not None:
            yield from _probe(probe, f"{field}.{kind}", spec, is_readiness=kind == "readinessProbe")


def _probe(probe: Object, field: str, spec: Object, *, is_readiness: bool) -> Iterator[FieldError]:
    yield from _handler(probe, field, spec)
    for time in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"):
        number = probe.get(time) or 0
        if number < 0:
            yield invalid(f"{field}.{time}", number, "must be greater than or equal to 0")
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None and grace <= 0:
        yield invalid(f"{field}.terminationGracePeriodSeconds", grace, "must be greater than 0")
    if is_readiness:
        if grace is not None:
            yield invalid(f"{field}.terminationGracePeriodSeconds", grace, "must not be set for readinessProbes")
    elif probe.get("successThreshold") != 1:
        yield invalid(f"{field}.successThreshold", probe.get("successThreshold"), "must be 1")


def _handler(handler: Object, field: str, spec: Object) -> Iterator[FieldError]:
    kinds = [kind for kind in ("exec", "httpGet", "tcpSocket", "grpc", "sleep") if handler.get(kind) is not None]
    if not kinds:
        yield required(field, "must specify a handler type")
        return
    action, here = handler[kinds[0]], f"{field}.{kinds[0]}"
    match kinds[0]:
        case "exec":
            if not action.get("command"):
                yield required(f"{here}.command")
        case "httpGet":
            yield from _request(action, here)
        case "tcpSocket" | "grpc":
            yield from _port_reference(action.get("port"), f"{here}.port")
        case "sleep":
            seconds, grace = action.get("seconds") or 0, spec["terminationGracePeriodSeconds"]
            if not 0 <= seconds <= grace:
                rule = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
                yield invalid(here, seconds, rule)
    for kind in kinds[1:]:
        yield forbidden(f"{field}.{kind}", "may not specify more than 1 handler type")


def _request(request: Object, field: str) -> Iterator[FieldError]:
    yield from _port_reference(request.get("port"), f"{field}.port")
    if request.get("scheme") not in ("HTTP", "HTTPS"):
        yield unsupported(f"{field}.scheme", request.get("scheme") or "", ("HTTP", "HTTPS"))
    for header in request.get("httpHeaders") or ():
        name = header.get("name") or ""
        yield from all_invalid(f"{field}.httpHeaders", name, pod_formats.header_problems(name))
