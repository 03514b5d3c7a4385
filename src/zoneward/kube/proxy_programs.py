"""Detects the proxies of nodes by their Pods, DaemonSets and ConfigMaps.

A proxy is recognized by its container's name, image or command; a Pod in kube-system without these by its DaemonSet.
Outside kube-system it must use the host network, as every proxy does: a tenant can give any name to a container, but
may not use that network.

Objects are reduced to the image, a few flags and a few settings at once. Addresses, mounts, the kubeconfig in
kube-proxy's ConfigMap and all other settings get no further.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from zoneward.kube.input_error import InputError
from zoneward.kube.json_documents import DECODE_ERRORS
from zoneward.kube.names import OVERLAY_CONFIG_MAP
from zoneward.kube.objects import (
    ConfigMap,
    DaemonPodSpec,
    DaemonPodTemplate,
    DaemonSet,
    DaemonSetSpec,
    PlainMeta,
    Pod,
    ProgramContainer,
    ProxyPod,
)

Program = Literal["kube-proxy", "cilium", "kube-router", "zoneward"]

SYSTEM_NAMESPACE: Final = "kube-system"
CILIUM_CONFIG: Final = "cilium-config"
KUBE_PROXY_CONFIGS: Final = ("kube-proxy", "kube-proxy-config")
"""kubeadm and most distributions use the first; Amazon EKS configures kube-proxy in the second."""
CONFIG_MAPS: Final = (*KUBE_PROXY_CONFIGS, CILIUM_CONFIG)
POD_LABELS: Final[Mapping[str, Sequence[str]]] = {
    "component": ("kube-proxy",),
    "k8s-app": ("cilium", "kube-proxy", "kube-router"),
}
"""Labels of proxies' Pods in kube-system: AKS and static Pods of GKE and RKE2 use the first; all other DaemonSets, GKE
Dataplane V2 and static Pods of kops use the second."""

FEATURE_GATES: Final = ("TopologyAwareHints", "ServiceTrafficDistribution", "PreferSameTrafficDistribution")
"""The feature gates of kube-proxy that decide which hints it honors."""
CILIUM_SETTINGS: Final = ("enable-service-topology", "kube-proxy-replacement")
SWITCHES: Final = ("true", "false", "strict", "partial", "probe", "disabled")
"""Valid values of these settings."""
_FLAGS: Final = ("feature-gates", "run-service-proxy", "service-proxy-name", *CILIUM_SETTINGS)
_VALUE: Final = re.compile(r"[A-Za-z0-9._,=-]{0,400}", re.ASCII)
_KUBE_PROXY_IMAGE: Final = re.compile(r"kube-proxy(?:-(?:amd64|arm64|arm|ppc64le|s390x|windows))?")
_VERSION: Final = re.compile(r"v?1\.([0-9]{1,3})(?![0-9])")
_CONTAINERS: Final[Mapping[str, Program]] = {
    "cilium-agent": "cilium",
    "kube-router": "kube-router",
    "kube-proxy": "kube-proxy",
}
_DAEMON_SETS: Final[Mapping[str, Program]] = {
    "anetd": "cilium",
    "cilium": "cilium",
    "kube-router": "kube-router",
    "kube-proxy": "kube-proxy",
}
"""Names of DaemonSets in kube-system; ``anetd`` is Cilium in GKE Dataplane V2."""
_OWNERS: Final = ("DaemonSet", "Node")
"""Owners of proxies' Pods; a static Pod belongs to its Node."""
_LONGEST_CONFIGURATION: Final = 1 << 16
_SETTINGS_KEY: Final = "settings.json"


@dataclass(frozen=True, slots=True)
class ProxyProgram:
    """``image`` has neither registry nor digest; ``minor`` is None if its tag is not a version ``1.x``."""

    program: Program
    image: str
    minor: int | None
    flags: Mapping[str, str]


def find_program(containers: Iterable[ProgramContainer] | None) -> ProxyProgram | None:
    """The proxy that runs in one of the containers of a Pod."""
    for container in containers or ():
        words = list(_words(container))
        program = _program(container, words)
        if program is not None:
            name, tag = split_image(container.image)
            return ProxyProgram(program, f"{name}:{tag}" if tag else name, minor_version(tag), _read_flags(words))
    return None


def minor_version(text: str) -> int | None:
    """33 for ``v1.33.4-eks-1``; None for anything but version 1."""
    match = _VERSION.match(text)
    return int(match[1]) if match else None


def split_image(image: str) -> tuple[str, str]:
    """The last part of an image's name, and its tag or an empty string."""
    name = image.partition("@")[0].rpartition("/")[2]
    name, _, tag = name.partition(":")
    return name, tag


def _words(container: ProgramContainer) -> Iterator[str]:
    """The words of the command line, including one that a shell runs."""
    for text in (*(container.command or ()), *(container.args or ())):
        for word in text.split():
            yield word.strip("'\";")


def _program(container: ProgramContainer, words: list[str]) -> Program | None:
    image = split_image(container.image)[0]
    programs = [word.rpartition("/")[2] for word in words]
    if "cilium-agent" in programs[:1]:
        return "cilium"
    if image == "kube-router" or "kube-router" in programs[:1]:
        return "kube-router"
    if "proxy" in programs[:2] and (image == "zoneward" or "zoneward" in programs[:1]):
        return "zoneward"
    is_hyperkube = image == "hyperkube" or "hyperkube" in programs[:1]
    if _KUBE_PROXY_IMAGE.fullmatch(image) or "kube-proxy" in programs or (is_hyperkube and "proxy" in programs[:2]):
        return "kube-proxy"
    return _CONTAINERS.get(container.name)


def _read_flags(words: list[str]) -> dict[str, str]:
    flags: dict[str, str] = {}
    for index, word in enumerate(words):
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or name not in _FLAGS:
            continue
        if not equals:
            following = words[index + 1] if index + 1 < len(words) else ""
            value = "true" if following.startswith("-") or not following else following
        if _VALUE.fullmatch(value):
            flags[name] = value
    return flags


def parse_gates(text: str) -> dict[str, bool]:
    """The known gates in the value of ``--feature-gates``."""
    pairs = (part.partition("=") for part in text.split(","))
    gates = {name.strip(): value.strip().lower() for name, _, value in pairs}
    return {gate: gates[gate] in ("true", "1", "t") for gate in FEATURE_GATES if gate in gates}


# --- reduced objects --------------------------------------------------------------------------------------------------


def may_run_proxy(pod: Pod) -> bool:
    """Whether a proxy may run in a Pod, by its owner. The containers of all other Pods are not decoded."""
    return all(owner.kind in _OWNERS for owner in pod.metadata.owner_references or ())


def is_read_config_map(namespace: str, name: str) -> bool:
    """Whether a ConfigMap is that of a proxy, or has parameters of the overlay. Cilium may be in any namespace."""
    return name in (CILIUM_CONFIG, OVERLAY_CONFIG_MAP) or (namespace == SYSTEM_NAMESPACE and name in KUBE_PROXY_CONFIGS)


def reduce_pod(pod: ProxyPod) -> ProxyPod | None:
    """The Pod of a proxy, with reduced containers; None for any other Pod."""
    containers = pod.spec.containers or ()
    if not _may_be_proxy(pod.metadata.namespace, pod.spec.host_network):
        return None
    if find_program(containers) is not None:
        return replace(pod, spec=replace(pod.spec, containers=tuple(map(_reduced, containers))))
    program = _owner_program(pod)
    if program is None:
        return None
    # A command in place of the owner's name, so that `find_program` recognizes it.
    return replace(pod, spec=replace(pod.spec, containers=(ProgramContainer(command=command_of(program)), *containers)))


def _may_be_proxy(namespace: str, host_network: bool | None) -> bool:
    return namespace == SYSTEM_NAMESPACE or host_network is True


def _owner_program(pod: ProxyPod) -> Program | None:
    """The proxy of a Pod with unknown containers, by its DaemonSet in kube-system."""
    containers = pod.spec.containers or ()
    if pod.metadata.namespace != SYSTEM_NAMESPACE or any(container.name or container.image for container in containers):
        return None
    return _DAEMON_SETS.get(owning_daemon_set(pod))


def owning_daemon_set(pod: Pod) -> str:
    """The name of the DaemonSet that owns a Pod; empty without one."""
    return next((owner.name for owner in pod.metadata.owner_references or () if owner.kind == "DaemonSet"), "")


def reduce_daemon_set(daemon_set: DaemonSet) -> DaemonSet | None:
    """The DaemonSet of a proxy, with the fields that are read; None for any other DaemonSet."""
    spec = daemon_set.spec.template.spec
    container = next((candidate for candidate in spec.containers or () if find_program((candidate,)) is not None), None)
    if container is None or not _may_be_proxy(daemon_set.metadata.namespace, spec.host_network):
        return None
    pods = DaemonPodSpec(
        node_selector=spec.node_selector,
        affinity=spec.affinity,
        containers=(_reduced(container),),
        host_network=spec.host_network,
    )
    return DaemonSet(
        metadata=PlainMeta(name=daemon_set.metadata.name, namespace=daemon_set.metadata.namespace),
        spec=DaemonSetSpec(template=DaemonPodTemplate(spec=pods)),
        status=daemon_set.status,
    )


def _reduced(container: ProgramContainer) -> ProgramContainer:
    program = find_program((container,))
    if program is None:
        return replace(container, name="", image="", command=None, args=None)
    return replace(
        container,
        name="",
        image=container.image,
        command=command_of(program.program),
        args=tuple(f"--{name}={value}" for name, value in sorted(program.flags.items())) or None,
    )


def command_of(program: Program) -> tuple[str, ...]:
    """A command line by which a program is recognized."""
    return {"cilium": ("cilium-agent",), "zoneward": ("zoneward", "proxy")}.get(program, (program,))


def reduce_config_map(config_map: ConfigMap) -> ConfigMap | None:
    """The ConfigMap of a proxy, with the settings that are read and valid, or that of an overlay; None for others."""
    if not is_read_config_map(config_map.metadata.namespace, config_map.metadata.name):
        return None
    if config_map.metadata.name == OVERLAY_CONFIG_MAP:
        return config_map
    data = config_map.data or {}
    if config_map.metadata.name == CILIUM_CONFIG:
        settings = {key: data.get(key, "").lower() for key in CILIUM_SETTINGS}
        return replace(config_map, data={key: value for key, value in settings.items() if value in SWITCHES})
    gates: dict[str, bool] = {}
    for key, text in sorted(data.items()):
        if "featureGates" in text and len(text) <= _LONGEST_CONFIGURATION:
            gates |= _configured_gates(key, text)
    return replace(config_map, data={_SETTINGS_KEY: msgspec.json.encode({"featureGates": gates}).decode()})


def _configured_gates(name: str, text: str) -> dict[str, bool]:
    try:
        document: object = msgspec.json.decode(text)
    except (*DECODE_ERRORS, UnicodeError):
        # Import PyYAML only for YAML: it takes time.
        from zoneward.kube.yaml_documents import one_document

        try:
            document = one_document(name, text.encode())
        except (InputError, ValueError, OverflowError, RecursionError):
            return {}
    gates = document.get("featureGates") if isinstance(document, dict) else None
    if not isinstance(gates, dict):
        return {}
    return {gate: gates[gate] for gate in FEATURE_GATES if isinstance(gates.get(gate), bool)}


def settings_of(config_map: ConfigMap) -> dict[str, str]:
    """Cilium's settings in a reduced ConfigMap."""
    return dict(config_map.data or {})


def gates_of(config_map: ConfigMap) -> dict[str, bool]:
    """kube-proxy's feature gates in a reduced ConfigMap."""
    return _configured_gates(_SETTINGS_KEY, (config_map.data or {}).get(_SETTINGS_KEY, ""))
