"""How to reach one cluster, as values: what a kubeconfig or a service account comes down to."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

InteractiveMode = Literal["Never", "IfAvailable", "Always"]


@dataclass(frozen=True, slots=True)
class PemReference:
    """Certificates or a key: ``data`` itself, or the ``path`` of the file that has it; ``place`` is the field."""

    place: str
    path: str | None = None
    data: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterInfo:
    """``server`` has a scheme, and a path where the API lies below one. ``proxy`` None: as the environment says."""

    server: str
    ca: PemReference | None = None
    insecure: bool = False
    tls_server_name: str | None = None
    proxy: str | None = None
    is_compressed: bool = True
    exec_config: Any = None
    """What the kubeconfig wants exec plugins to be told, the extension ``client.authentication.k8s.io/exec``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecPluginConfig:
    """A command that prints credentials. ``command`` with a slash in it is an absolute path."""

    api_version: str
    command: str
    arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    is_told_cluster: bool = False
    interactive: InteractiveMode = "IfAvailable"
    install_hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImpersonationConfig:
    """Whom to act as; without ``user`` nobody."""

    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UserInfo:
    """Who we are. A token file goes before ``token``, which serves until the file can be read."""

    name: str = ""
    certificate: PemReference | None = None
    key: PemReference | None = None
    token: str | None = field(default=None, repr=False)
    token_file: str | None = None
    basic: tuple[str, str] | None = field(default=None, repr=False)
    exec_plugin: ExecPluginConfig | None = None
    impersonation: ImpersonationConfig = ImpersonationConfig()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """One cluster and who we are there. ``source``: the kubeconfig file that has the user, for messages."""

    cluster: ClusterInfo
    user: UserInfo
    namespace: str = "default"
    context: str = ""
    source: str = ""
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    """Of the process: proxies and plugins read it."""
