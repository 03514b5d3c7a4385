"""The programs that serve Services on nodes, as the DaemonSets and Pods that run them and their ConfigMaps show them.

A proxy is recognized by the name of its container, its image or its command; without any of these, a Pod in kube-system
by the DaemonSet that owns it. Outside kube-system it must use the network of its node, as every proxy does: a tenant
may give any name to a container, but that network is for those who are trusted with the nodes.

Of each object there is only what says which proxy it is: image, a few flags, a few settings. Addresses, mounts, the
kubeconfig in kube-proxy's ConfigMap and all other settings are left out before anybody else sees them.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from zoneward.kube.input_error import InputError
from zoneward.kube.json_documents import DECODE_ERRORS
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
"""kubeadm and most others have the first; Amazon EKS has its configuration in the second."""
CONFIG_MAPS: Final = (*KUBE_PROXY_CONFIGS, CILIUM_CONFIG)
POD_LABELS: Final[Mapping[str, Sequence[str]]] = {
    "component": ("kube-proxy",),
    "k8s-app": ("cilium", "kube-proxy", "kube-router"),
}
"""Labels of proxies' Pods in kube-system: those of AKS and static Pods of GKE and RKE2 have the first; those of other
DaemonSets, GKE Dataplane V2's too, and static Pods of kops the second."""

FEATURE_GATES: Final = ("TopologyAwareHints", "ServiceTrafficDistribution", "PreferSameTrafficDistribution")
"""The gates of kube-proxy on which it depends what hints it honors."""
CILIUM_SETTINGS: Final = ("enable-service-topology", "kube-proxy-replacement")
SWITCHES: Final = ("true", "false", "strict", "partial", "probe", "disabled")
"""The values of these settings."""
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
"""What a proxy's Pod belongs to; static Pods belong to their Node."""
_LONGEST_CONFIGURATION: Final = 1 << 16
_SETTINGS_KEY: Final = "settings.json"


@dataclass(frozen=True, slots=True)
class ProxyProgram:
    """``image`` has neither registry nor digest; ``minor`` is None where its tag is no version ``1.x``."""

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
    """33 for ``v1.33.4-eks-1``; None for what is no version 1."""
    found = _VERSION.match(text)
    return int(found[1]) if found else None


def split_image(image: str) -> tuple[str, str]:
    """The last part of an image's name, and its tag, which may be empty."""
    name = image.partition("@")[0].rpartition("/")[2]
    name, _, tag = name.partition(":")
    return name, tag


def _words(container: ProgramContainer) -> Iterator[str]:
    """The words of the command line, also of one that a shell runs."""
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
    for number, word in enumerate(words):
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or name not in _FLAGS:
            continue
        if not equals:
            following = words[number + 1] if number + 1 < len(words) else ""
            value = "true" if following.startswith("-") or not following else following
        if _VALUE.fullmatch(value):
            flags[name] = value
    return flags


def parse_gates(text: str) -> dict[str, bool]:
    """The known gates in the value of ``--feature-gates``."""
    pairs = (part.partition("=") for part in text.split(","))
    gates = {name.strip(): value.strip().lower() for name, _, value in pairs}
    return {gate: gates[gate] in ("true", "1", "t") for gate in FEATURE_GATES if gate in gates}


# --- only what is read ------------------------------------------------------------------------------------------------


def may_run_proxy(pod: Pod) -> bool:
    """Whether a Pod is of a kind that proxies run in, by its owner: what is not one needs no look at its programs."""
    return all(owner.kind in _OWNERS for owner in pod.metadata.owner_references or ())


def is_proxy_config_map(namespace: str, name: str) -> bool:
    """Cilium may be in a namespace of its own."""
    return name == CILIUM_CONFIG or (namespace == SYSTEM_NAMESPACE and name in KUBE_PROXY_CONFIGS)


def reduce_pod(pod: ProxyPod) -> ProxyPod | None:
    """The Pod of a proxy with only what is read of its programs; None for any other one."""
    containers = pod.spec.containers or ()
    if not _may_be_proxy(pod.metadata.namespace, pod.spec.host_network):
        return None
    if find_program(containers) is not None:
        return replace(pod, spec=replace(pod.spec, containers=tuple(map(_reduced, containers))))
    program = _owner_program(pod)
    if program is None:
        return None
    # What the owner's name says is kept as a command, so that it is read in one way.
    return replace(pod, spec=replace(pod.spec, containers=(ProgramContainer(command=command_of(program)), *containers)))


def _may_be_proxy(namespace: str, host_network: bool | None) -> bool:
    return namespace == SYSTEM_NAMESPACE or host_network is True


def _owner_program(pod: ProxyPod) -> Program | None:
    """The proxy of a Pod whose containers are not known, by the DaemonSet in kube-system that owns it."""
    if pod.metadata.namespace != SYSTEM_NAMESPACE or any(each.name or each.image for each in pod.spec.containers or ()):
        return None
    return _DAEMON_SETS.get(owning_daemon_set(pod))


def owning_daemon_set(pod: Pod) -> str:
    """The name of the DaemonSet that owns a Pod, or an empty one."""
    return next((owner.name for owner in pod.metadata.owner_references or () if owner.kind == "DaemonSet"), "")


def reduce_daemon_set(each: DaemonSet) -> DaemonSet | None:
    """The DaemonSet of a proxy with only what is read of it; None for any other one."""
    spec = each.spec.template.spec
    container = next((one for one in spec.containers or () if find_program((one,)) is not None), None)
    if container is None or not _may_be_proxy(each.metadata.namespace, spec.host_network):
        return None
    pods = DaemonPodSpec(
        node_selector=spec.node_selector,
        affinity=spec.affinity,
        containers=(_reduced(container),),
        host_network=spec.host_network,
    )
    return DaemonSet(
        metadata=PlainMeta(name=each.metadata.name, namespace=each.metadata.namespace),
        spec=DaemonSetSpec(template=DaemonPodTemplate(spec=pods)),
        status=each.status,
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


def reduce_config_map(each: ConfigMap) -> ConfigMap | None:
    """The ConfigMap of a proxy with only the settings that are read; None for any other one. What cannot be read says
    nothing.
    """
    if not is_proxy_config_map(each.metadata.namespace, each.metadata.name):
        return None
    data = each.data or {}
    if each.metadata.name == CILIUM_CONFIG:
        settings = {key: data.get(key, "").lower() for key in CILIUM_SETTINGS}
        return replace(each, data={key: value for key, value in settings.items() if value in SWITCHES})
    gates: dict[str, bool] = {}
    for key, text in sorted(data.items()):
        if "featureGates" in text and len(text) <= _LONGEST_CONFIGURATION:
            gates |= _configured_gates(key, text)
    return replace(each, data={_SETTINGS_KEY: msgspec.json.encode({"featureGates": gates}).decode()})


def _configured_gates(name: str, text: str) -> dict[str, bool]:
    try:
        document: object = msgspec.json.decode(text)
    except (*DECODE_ERRORS, UnicodeError):
        # Snapshots need no parser of YAML, which takes a while to load.
        from zoneward.kube.yaml_documents import one_document

        try:
            document = one_document(name, text.encode())
        except (InputError, ValueError, OverflowError, RecursionError):
            return {}
    gates = document.get("featureGates") if isinstance(document, dict) else None
    if not isinstance(gates, dict):
        return {}
    return {gate: gates[gate] for gate in FEATURE_GATES if isinstance(gates.get(gate), bool)}


def settings_of(each: ConfigMap) -> dict[str, str]:
    """Cilium's settings in a reduced ConfigMap."""
    return dict(each.data or {})


def gates_of(each: ConfigMap) -> dict[str, bool]:
    """kube-proxy's feature gates in a reduced ConfigMap."""
    return _configured_gates(_SETTINGS_KEY, (each.data or {}).get(_SETTINGS_KEY, ""))
