"""Judging the volumes of pods, and where containers mount them.

Of the kinds of volume, those that any cluster has are judged; of the others only that a volume is of one kind.
"""

from collections.abc import Container, Iterator, Mapping
from typing import Final

from zoneward.kube import formats, quantity
from zoneward.kube.validation import FieldError
from zoneward.sandbox.server.kinds import Object
from zoneward.sandbox.server.rules import pod_formats
from zoneward.sandbox.server.rules.pod_errors import (
    all_invalid,
    duplicate,
    forbidden,
    invalid,
    not_found,
    required,
    too_long,
    unsupported,
)
from zoneward.sandbox.server.rules.pod_references import field_errors, resource_field_errors

_KINDS: Final = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
]
_MISSPELT: Final = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
"""As upstream's paths have them."""
_HOST_TYPES: Final = ["BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"]
_MODE: Final = "must be a number between 0 and 0777 (octal), both inclusive"
_IN_FILES: Final = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)


def volume_errors(volumes: list[Object], field: str, good: dict[str, Object]) -> Iterator[FieldError]:
    """``good`` gets the volumes that nothing is wrong with, by name: only those can be mounted."""
    for index, volume in enumerate(volumes):
        here, name = f"{field}[{index}]", volume.get("name") or ""
        found = list(_source(volume, here))
        if not name:
            found.append(required(f"{here}.name"))
        else:
            found += all_invalid(f"{here}.name", name, formats.label_problems(name))
        if name in good:
            found.append(duplicate(f"{here}.name", name))
        if not found:
            good[name] = volume
        yield from found


def _source(volume: Object, field: str) -> Iterator[FieldError]:
    kinds = [kind for kind in _KINDS if volume.get(kind) is not None]
    for kind in kinds[1:]:
        yield forbidden(f"{field}.{_MISSPELT.get(kind, kind)}", "may not specify more than 1 volume type")
    if not kinds:
        yield required(field, "must specify a volume type")
        return
    source, here = volume[kinds[0]], f"{field}.{kinds[0]}"
    match kinds[0]:
        case "emptyDir":
            if quantity.parse(source.get("sizeLimit") or "0") < 0:
                yield forbidden(f"{here}.sizeLimit", "SizeLimit field must be a valid resource quantity")
        case "hostPath":
            yield from _host_path(source, here)
        case "nfs":
            yield from _nfs(source, here)
        case "secret":
            if not source.get("secretName"):
                yield required(f"{here}.secretName")
            yield from _mode(source.get("defaultMode"), f"{here}.defaultMode")
            yield from _items(source, here)
        case "configMap":
            if not source.get("name"):
                yield required(f"{here}.name")
            yield from _mode(source.get("defaultMode"), f"{here}.defaultMode")
            yield from _items(source, here)
        case "downwardAPI":
            yield from _mode(source.get("defaultMode"), f"{here}.defaultMode")
            for item in source.get("items") or ():
                yield from _downward_file(item, here)
        case "projected":
            yield from _projected(source, here)
        case "persistentVolumeClaim":
            if not source.get("claimName"):
                yield required(f"{here}.claimName")
        case "csi":
            yield from _driver(source.get("driver") or "", f"{here}.driver")


def _host_path(source: Object, field: str) -> Iterator[FieldError]:
    path, kind = source.get("path") or "", source.get("type") or ""
    if not path:
        yield required(f"{field}.path")
        return
    yield from all_invalid(f"{field}.path", path, pod_formats.backstep_problems(path))
    if kind and kind not in _HOST_TYPES:
        yield unsupported(f"{field}.type", kind, ("", *_HOST_TYPES))


def _nfs(source: Object, field: str) -> Iterator[FieldError]:
    path = source.get("path") or ""
    if not source.get("server"):
        yield required(f"{field}.server")
    if not path:
        yield required(f"{field}.path")
    if not path.startswith("/"):
        yield invalid(f"{field}.path", path, "must be an absolute path")


def _driver(name: str, field: str) -> Iterator[FieldError]:
    if not name:
        yield required(field)
        return
    if len(name) > 63:
        yield too_long(field, 63)
    yield from all_invalid(field, name, formats.subdomain_problems(name.lower()))


# --- files in volumes -------------------------------------------------------------------------------------------------


def _mode(mode: int | None, field: str) -> Iterator[FieldError]:
    if mode is not None and not 0 <= mode <= 0o777:
        yield invalid(field, mode, _MODE)


def _items(source: Object, field: str) -> Iterator[FieldError]:
    """Keys of a ConfigMap or Secret, and the files they become."""
    for index, item in enumerate(source.get("items") or ()):
        here, path = f"{field}.items[{index}]", item.get("path") or ""
        if not item.get("key"):
            yield required(f"{here}.key")
        if not path:
            yield required(f"{here}.path")
        else:
            yield from all_invalid(f"{here}.path", path, pod_formats.file_path_problems(path))
        yield from _mode(item.get("mode"), f"{here}.mode")


def _downward_file(item: Object, field: str) -> Iterator[FieldError]:
    # Upstream's paths bear no index here.
    path = item.get("path") or ""
    if not path:
        yield required(f"{field}.path")
    yield from all_invalid(f"{field}.path", path, pod_formats.file_path_problems(path))
    of_pod, of_container = item.get("fieldRef"), item.get("resourceFieldRef")
    if of_pod is not None:
        yield from field_errors(of_pod, f"{field}.fieldRef", _IN_FILES)
        if of_container is not None:
            yield invalid(field, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
    elif of_container is not None:
        yield from resource_field_errors(of_container, f"{field}.resourceFieldRef", in_file=True)
    else:
        yield required(field, "one of fieldRef and resourceFieldRef is required")
    yield from _mode(item.get("mode"), f"{field}.mode")


def _projected(source: Object, field: str) -> Iterator[FieldError]:
    yield from _mode(source.get("defaultMode"), f"{field}.defaultMode")
    paths: set[str] = set()
    for index, part in enumerate(source.get("sources") or ()):
        here = f"{field}.sources[{index}]"
        kinds = [kind for kind, value in part.items() if value is not None]
        for _ in kinds[1:]:
            yield forbidden(here, "may not specify more than 1 volume type per source")
        for kind in ("secret", "configMap"):
            if (keys := part.get(kind)) is not None:
                name = keys.get("name") or ""
                if not name:
                    yield required(f"{here}.{kind}.name")
                yield from _items(keys, f"{here}.{kind}")
                yield from _taken(keys.get("items") or (), name, field, paths)
        if (downward := part.get("downwardAPI")) is not None:
            for item in downward.get("items") or ():
                yield from _downward_file(item, f"{here}.downwardAPI")
                yield from _taken((item,), item.get("path") or "", field, paths)
        if (token := part.get("serviceAccountToken")) is not None:
            yield from _token(token, here, field)


def _taken(items: tuple[Object, ...] | list[Object], said: str, field: str, paths: set[str]) -> Iterator[FieldError]:
    for item in items:
        if path := item.get("path"):
            if path in paths:
                yield invalid(field, said, "conflicting duplicate paths")
            paths.add(path)


def _token(token: Object, here: str, field: str) -> Iterator[FieldError]:
    seconds, path = token.get("expirationSeconds") or 0, token.get("path") or ""
    if seconds < 600:
        yield invalid(
            f"{here}.serviceAccountToken.expirationSeconds",
            seconds,
            "may not specify a duration less than 10 minutes",
        )
    if seconds > 1 << 32:
        yield invalid(
            f"{here}.serviceAccountToken.expirationSeconds",
            seconds,
            "may not specify a duration larger than 2^32 seconds",
        )
    if not path:
        yield required(f"{field}.path")
    else:
        yield from all_invalid(f"{field}.path", path, pod_formats.file_path_problems(path))


# --- mounts -----------------------------------------------------------------------------------------------------------


def mount_errors(container: Object, field: str, volumes: Mapping[str, Object]) -> Iterator[FieldError]:
    """``volumeMounts`` and ``volumeDevices`` of a container."""
    mounts, devices = container.get("volumeMounts") or [], container.get("volumeDevices") or []
    device_paths = {device.get("name") or "": device.get("devicePath") or "" for device in devices}
    seen: set[str] = set()
    for index, mount in enumerate(mounts):
        here, name, path = f"{field}.volumeMounts[{index}]", mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            yield required(f"{here}.name")
        if name not in volumes:
            yield not_found(f"{here}.name", name)
        if not path:
            yield required(f"{here}.mountPath")
        if path in seen:
            yield invalid(f"{here}.mountPath", path, "must be unique")
        seen.add(path)
        if name in device_paths:
            yield invalid(f"{here}.name", name, "must not already exist in volumeDevices")
        if path in device_paths.values():
            yield invalid(f"{here}.mountPath", path, "must not already exist as a path in volumeDevices")
        yield from _sub_paths(mount, f"{field}.volumeMounts", here)
        yield from _propagation(mount, f"{field}.volumeMounts", container)
    mounted = {mount.get("name") or "": mount.get("mountPath") or "" for mount in mounts}
    yield from _devices(devices, f"{field}.volumeDevices", volumes, mounted)


def _sub_paths(mount: Object, field: str, here: str) -> Iterator[FieldError]:
    path, expression = mount.get("subPath") or "", mount.get("subPathExpr") or ""
    if path:
        yield from all_invalid(f"{field}.subPath", path, pod_formats.descending_path_problems(path))
    if expression:
        if path:
            yield invalid(f"{here}.subPathExpr", expression, "subPathExpr and subPath are mutually exclusive")
        yield from all_invalid(f"{field}.subPathExpr", expression, pod_formats.descending_path_problems(expression))


def _propagation(mount: Object, field: str, container: Object) -> Iterator[FieldError]:
    kinds = ("Bidirectional", "HostToContainer", "None")
    propagation, read_only = mount.get("mountPropagation"), mount.get("recursiveReadOnly")
    if propagation is not None and propagation not in kinds:
        yield unsupported(f"{field}.mountPropagation", propagation, kinds)
    if propagation == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
        rule = "Bidirectional mount propagation is available only to privileged containers"
        yield forbidden(f"{field}.mountPropagation", rule)
    if read_only in ("Enabled", "IfPossible"):
        if not mount.get("readOnly"):
            yield forbidden(f"{field}.recursiveReadOnly", "may only be specified when readOnly is true")
        if propagation not in (None, "None"):
            rule = "may only be specified when mountPropagation is None or not specified"
            yield forbidden(f"{field}.recursiveReadOnly", rule)
    elif read_only not in (None, "Disabled"):
        yield unsupported(f"{field}.recursiveReadOnly", read_only, ("Disabled", "Enabled", "IfPossible"))


def _devices(
    devices: list[Object], field: str, volumes: Container[str], mounted: Mapping[str, str]
) -> Iterator[FieldError]:
    names: set[str] = set()
    paths: set[str] = set()
    for index, device in enumerate(devices):
        here, name, path = f"{field}[{index}]", device.get("name") or "", device.get("devicePath") or ""
        if not name:
            yield required(f"{here}.name")
        if name in names:
            yield invalid(f"{here}.name", name, "must be unique")
        if name not in volumes:
            yield not_found(f"{here}.name", name)
        if not path:
            yield required(f"{here}.devicePath")
        if path in paths:
            yield invalid(f"{here}.devicePath", path, "must be unique")
        if path and any(pod_formats.backstep_problems(path)):
            yield invalid(f"{here}.devicePath", path, "can not contain backsteps ('..')")
        else:
            paths.add(path)
        if name in mounted:
            yield invalid(f"{here}.name", name, "must not already exist in volumeMounts")
        if path in mounted.values():
            yield invalid(f"{here}.devicePath", path, "must not already exist as a path in volumeMounts")
        if name:
            names.add(name)
