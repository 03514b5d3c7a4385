"""How to reach one cluster and as which user: the contents of a kubeconfig or a service account, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

InteractiveMode = Literal["Never", "IfAvailable", "Always"]


@dataclass(frozen=True, slots=True)
class PemReference:
    """Certificates or a key: the ``data``, or the ``path`` of the file that has it; ``location`` is the field."""

    location: str
    path: str | None = None
    data: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterInfo:
    """A cluster of a kubeconfig. ``server`` has a scheme and perhaps a path. ``proxy`` None: from the environment."""

    server: str
    ca: PemReference | None = None
    insecure: bool = False
    tls_server_name: str | None = None
    proxy: str | None = None
    is_compressed: bool = True
    exec_config: Any = None
    """The extension ``client.authentication.k8s.io/exec`` of the cluster, which is passed to exec plugins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecPluginConfig:
    """A command that prints credentials. ``command`` with a slash in it is an absolute path."""

    api_version: str
    command: str
    arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    provides_cluster_info: bool = False
    interactive: InteractiveMode = "IfAvailable"
    install_hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImpersonationConfig:
    """The user to act as; an empty ``user`` means no impersonation."""

    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UserInfo:
    """A user of a kubeconfig. A token file wins over ``token``, which is used until the file can be read."""

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
    """One cluster, and the user to log in as. ``source``: the kubeconfig file that has the user, for messages."""

    cluster: ClusterInfo
    user: UserInfo
    namespace: str = "default"
    context: str = ""
    source: str = ""
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    """The environment of the process: for the proxy settings and the plugins."""
