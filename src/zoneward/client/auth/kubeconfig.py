"""Reads kubeconfig files, merged as kubectl merges them: the cluster and the user that a context names. In a Pod
without them, it reads the service account that the kubelet mounts.
"""

import base64
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from zoneward.client.auth.client_config import (
    ClientConfig,
    ClusterInfo,
    ExecPluginConfig,
    ImpersonationConfig,
    InteractiveMode,
    PemReference,
    UserInfo,
)
from zoneward.kube.input_error import InputError, show
from zoneward.kube.input_files import read_regular

SERVICE_ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_LARGEST: Final = 16
"""MiB. The kubeconfig files of large companies have thousands of clusters; a larger file is not a kubeconfig."""
_SECTIONS: Final = {"contexts": "context", "clusters": "cluster", "users": "user"}


def load_client_config(
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    impersonate: str | None = None,
    environment: Mapping[str, str],
    service_account: str = SERVICE_ACCOUNT,
) -> ClientConfig:
    """The cluster and user of a context. Raises InputError with file, field, the expected and the actual value.

    ``kubeconfig``, ``context`` and ``impersonate`` are what kubectl calls ``--kubeconfig``, ``--context`` and ``--as``.
    Without ``kubeconfig`` it reads the files of ``$KUBECONFIG``, else ``~/.kube/config``; files that do not
    exist are skipped. Without any context, it uses the service account of the Pod that it runs in.
    """
    files = [kubeconfig] if kubeconfig else _files(environment)
    merged = _MergedKubeconfig(files, must_exist=bool(kubeconfig))
    name = context or merged.current
    config = None
    if name and merged.read:
        config = merged.config(name)
    elif not kubeconfig and not context:
        config = _in_cluster_config(environment=environment, directory=service_account)
    if config is None and not merged.read:
        named_by = " (from $KUBECONFIG)" if environment.get("KUBECONFIG", "").strip(os.pathsep) else ""
        raise InputError("there is no kubeconfig", f"looked for {', '.join(files)}{named_by}")
    if config is None:
        raise InputError(os.pathsep.join(merged.read), "expected a current-context, or --context NAME, got none")
    user = config.user
    if impersonate:
        if not impersonate.isprintable():
            raise InputError("--as", f"expected the name of a user, got {show(impersonate)}")
        # Like kubectl, keep groups, uid and extras of the file.
        user = replace(user, impersonation=replace(user.impersonation, user=impersonate))
    return replace(config, user=user, environment=environment)


def context_names(*, kubeconfig: str | None = None, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The names of all contexts; none if there is no file. Raises InputError."""
    files = [kubeconfig] if kubeconfig else _files(environment)
    return _MergedKubeconfig(files, must_exist=False).names("contexts")


def _files(environment: Mapping[str, str]) -> list[str]:
    listed = environment.get("KUBECONFIG", "").split(os.pathsep)
    files = list(dict.fromkeys(file for file in listed if file))
    return files or [str(Path(environment.get("HOME", "/"), ".kube", "config"))]


class DocumentFields:
    """A mapping in a file, whose fields are read by name and type. A field that is null is the same as an absent one.

    Every method raises InputError with file, field, what was expected and what was there.
    """

    def __init__(self, value: object, *, source: str, location: str = "") -> None:
        self.source, self._location = source, location
        if value is not None and not isinstance(value, dict):
            raise self.error("", "a mapping", show(value))
        self._values: Mapping[Any, Any] = value or {}

    def error(self, name: str, expected: str, got: str) -> InputError:
        return InputError(self.source, self.at(name), f"expected {expected}, got {got}")

    def at(self, name: str) -> str:
        """The path of a field in the document."""
        return ".".join(filter(None, (self._location, name)))

    def raw(self, name: str) -> object:
        return self._values.get(name)

    def text(self, name: str, *, is_secret: bool = False) -> str:
        """Empty where absent. A value that ``is_secret`` is not shown."""
        value = self._values.get(name)
        if value is None or isinstance(value, str):
            return value or ""
        without_quotes = " without quotes" if isinstance(value, bool | int | float) else ""
        got = f"something else{',' if without_quotes else ''}" if is_secret else show(value)
        raise self.error(name, "a string", got + without_quotes)

    def required(self, name: str, expected: str = "a string that is not empty") -> str:
        text = self.text(name)
        if not text:
            raise self.error(name, expected, "none")
        return text

    def flag(self, name: str) -> bool:
        """False where absent."""
        return bool(self._typed(name, bool, "true or false"))

    def data(self, name: str) -> bytes:
        """Base64, decoded; empty where absent. A value that is no base64 is not shown: it may be a key."""
        text = self.text(name, is_secret=True)
        try:
            return base64.b64decode("".join(text.split()), validate=True)
        except ValueError:
            raise self.error(name, "base64", "something else") from None

    def inner(self, name: str) -> "DocumentFields":
        """A mapping; empty where absent."""
        return DocumentFields(self._values.get(name), source=self.source, location=self.at(name))

    def names(self) -> Iterator[str]:
        for name in self._values:
            if not isinstance(name, str):
                raise self.error("", "keys that are strings", show(name))
            yield name

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings; empty where absent."""
        items = self._typed(name, list, "a list") or []
        for index, item in enumerate(items):
            if not isinstance(item, str):
                raise self.error(f"{name}[{index}]", "a string", show(item))
        return tuple(items)

    def items(self, name: str) -> Iterator["DocumentFields"]:
        """A list of mappings; empty where absent."""
        for index, item in enumerate(self._typed(name, list, "a list") or ()):
            yield DocumentFields(item, source=self.source, location=self.at(f"{name}[{index}]"))

    def _typed(self, name: str, type_: type, expected: str) -> Any:
        value = self._values.get(name)
        if value is not None and not isinstance(value, type_):
            raise self.error(name, expected, show(value))
        return value


class _MergedKubeconfig:
    """The entries of all files by section and name; if a name is repeated, the first file wins."""

    def __init__(self, files: list[str], *, must_exist: bool) -> None:
        self.read: list[str] = []
        self.current = ""
        self._entries: dict[str, dict[str, DocumentFields]] = {section: {} for section in _SECTIONS}
        for file in files:
            document = _document(file, must_exist=must_exist)
            if document is not None:
                self._add(document)

    def config(self, context: str) -> ClientConfig:
        """The configuration of a context, its ``environment`` still empty."""
        chosen = self._entry("contexts", context, named_in=self.read[0])
        cluster = self._entry("clusters", chosen.required("cluster", "the name of a cluster"), named_in=chosen)
        user = self._entry("users", chosen.text("user"), named_in=chosen) if chosen.text("user") else None
        parsed_user = _parse_user(user or DocumentFields({}, source=chosen.source), name=chosen.text("user"))
        return ClientConfig(
            cluster=_parse_cluster(cluster, has_certificate=parsed_user.certificate is not None),
            user=parsed_user,
            namespace=chosen.text("namespace") or "default",
            context=context,
            source=(user or chosen).source,
        )

    def names(self, section: str) -> tuple[str, ...]:
        return tuple(self._entries[section])

    def _add(self, document: DocumentFields) -> None:
        self.read.append(document.source)
        kind = document.text("kind")
        if kind not in ("", "Config"):
            raise document.error("kind", "Config", show(kind))
        self.current = self.current or document.text("current-context")
        for section, inner in _SECTIONS.items():
            entries: dict[str, DocumentFields] = {}
            for entry in document.items(section):
                name = entry.required("name")
                if name in entries:
                    raise entry.error("name", f"a unique name in {section}", show(name))
                entries[name] = entry.inner(inner)
            self._entries[section] = entries | self._entries[section]

    def _entry(self, section: str, name: str, *, named_in: DocumentFields | str) -> DocumentFields:
        entries = self._entries[section]
        if name in entries:
            return entries[name]
        known = ", ".join(list(entries)[:5]) + (", ..." if len(entries) > 5 else "")
        expected = f"one of the {section} ({known or 'there are none'})"
        if isinstance(named_in, DocumentFields):
            raise named_in.error(_SECTIONS[section], expected, show(name))
        raise InputError(named_in, "context", f"expected {expected}, got {show(name)}")


def _document(file: str, *, must_exist: bool) -> DocumentFields | None:
    """A file's one document; None for a file that need not exist and does not."""
    from zoneward.kube.yaml_documents import read_document

    try:
        return DocumentFields(read_document(file, what="kubeconfig", most=_LARGEST), source=file)
    except InputError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
        if must_exist:
            raise InputError(file, "expected a kubeconfig file, got none") from None
        return None


# --- entries: what client-go refuses is refused, and the error names the field ----------------------------------------

_EXEC_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_EXEC_EXTENSION: Final = "client.authentication.k8s.io/exec"
_INTERACTIVE_MODES: Final[tuple[InteractiveMode, ...]] = ("Never", "IfAvailable", "Always")
_PROXY_SCHEMES: Final = ("http", "https")


def _parse_cluster(fields: DocumentFields, *, has_certificate: bool) -> ClusterInfo:
    """``has_certificate``: the user has a client certificate. Raises InputError."""
    ca = _parse_pem(fields, "certificate-authority")
    insecure = fields.flag("insecure-skip-tls-verify")
    if ca and insecure:
        raise fields.error("insecure-skip-tls-verify", f"false beside {ca.location}", "true")
    server = fields.required("server", "the address of an API server")
    proxy = fields.text("proxy-url")
    if proxy and (_scheme(proxy) not in _PROXY_SCHEMES or not _host(proxy)):
        raise fields.error("proxy-url", "an http:// or https:// address", show(_without_password(proxy)))
    return ClusterInfo(
        server=_server_address(server, is_tls=bool(ca or insecure or has_certificate), error_at=fields),
        ca=ca,
        insecure=insecure,
        tls_server_name=fields.text("tls-server-name") or None,
        proxy=proxy or None,
        is_compressed=not fields.flag("disable-compression"),
        exec_config=next(
            (item.raw("extension") for item in fields.items("extensions") if item.text("name") == _EXEC_EXTENSION), None
        ),
    )


def _server_address(server: str, *, is_tls: bool, error_at: DocumentFields) -> str:
    """The address with a scheme and without a trailing slash. As in client-go, ``host:port`` is valid."""
    address = server if "://" in server else f"{'https' if is_tls else 'http'}://{server}"
    if _scheme(address) not in ("http", "https") or not _host(address):
        raise error_at.error("server", "an http:// or https:// address", show(_without_password(server)))
    if "@" in urlsplit(address).netloc:
        raise error_at.error("server", "an address without a user and a password", "one with them")
    scheme, separator, rest = address.rstrip("/").partition("://")
    return scheme.lower() + separator + rest


def _parse_user(fields: DocumentFields, *, name: str) -> UserInfo:
    """Raises InputError, also for fields that current kubectl rejects, such as ``auth-provider``."""
    certificate, key = _parse_pem(fields, "client-certificate"), _parse_pem(fields, "client-key")
    if (certificate is None) != (key is None):
        given, missing = ("client-certificate", "client-key")[:: 1 if certificate else -1]
        raise fields.error(missing, f"a value beside {given}", "none")
    token, token_file = fields.text("token", is_secret=True), _parse_path(fields, "tokenFile")
    username, password = fields.text("username"), fields.text("password", is_secret=True)
    if (token or token_file) and username:
        raise fields.error("username", "one way to log in", "a token, too")
    if fields.raw("auth-provider"):
        raise fields.error("auth-provider", "exec, which replaced it in Kubernetes 1.26", "an auth-provider")
    return UserInfo(
        name=name,
        certificate=certificate,
        key=key,
        token=token or None,
        token_file=token_file,
        basic=(username, password) if username or password else None,
        exec_plugin=_exec_from(fields.inner("exec")) if fields.raw("exec") is not None else None,
        impersonation=_impersonation_from(fields),
    )


def _parse_pem(fields: DocumentFields, name: str) -> PemReference | None:
    """The value of ``NAME-data``, else the file that ``NAME`` names."""
    data_name = f"{name}-data"
    if data := fields.data(data_name):
        return PemReference(fields.at(data_name), data=data)
    path = _parse_path(fields, name)
    return PemReference(fields.at(name), path=path) if path else None


def _parse_path(fields: DocumentFields, name: str) -> str | None:
    """The path in a field; a relative path is relative to the kubeconfig file."""
    path = fields.text(name)
    return _beside(fields.source, path) if path else None


def _beside(source: str, path: str) -> str:
    return str(Path(source).absolute().parent / path)


def _exec_from(fields: DocumentFields) -> ExecPluginConfig:
    version = fields.required("apiVersion", " or ".join(_EXEC_VERSIONS))
    if version not in _EXEC_VERSIONS:
        raise fields.error("apiVersion", " or ".join(_EXEC_VERSIONS), show(version))
    command = fields.required("command", "the name of a program")
    return ExecPluginConfig(
        api_version=version,
        # A bare name is looked for in PATH, as client-go does.
        command=_beside(fields.source, command) if os.sep in command else command,
        arguments=fields.texts("args"),
        environment=tuple((pair.required("name"), pair.text("value", is_secret=True)) for pair in fields.items("env")),
        provides_cluster_info=fields.flag("provideClusterInfo"),
        interactive=_interactive_mode(fields, is_required=version == _EXEC_VERSIONS[0]),
        install_hint=" ".join(fields.text("installHint").split()),
    )


def _interactive_mode(fields: DocumentFields, *, is_required: bool) -> InteractiveMode:
    text = fields.text("interactiveMode")
    if not text and not is_required:
        return "IfAvailable"
    mode = next((mode for mode in _INTERACTIVE_MODES if mode == text), None)
    if mode is None:
        raise fields.error("interactiveMode", "Never, IfAvailable or Always", show(text) if text else "none")
    return mode


def _impersonation_from(fields: DocumentFields) -> ImpersonationConfig:
    extra = fields.inner("as-user-extra")
    impersonation = ImpersonationConfig(
        user=fields.text("as"),
        uid=fields.text("as-uid"),
        groups=fields.texts("as-groups"),
        extra=tuple((name, extra.texts(name)) for name in extra.names()),
    )
    if impersonation != ImpersonationConfig() and not impersonation.user:
        raise fields.error("as", "a user beside as-uid, as-groups or as-user-extra", "none")
    return impersonation


def _scheme(address: str) -> str:
    return address.partition("://")[0].lower()


def _host(address: str) -> str | None:
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        return None
    return parts.hostname


def _without_password(address: str) -> str:
    scheme, separator, rest = address.rpartition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"


# --- the service account of a Pod -------------------------------------------------------------------------------------


_LONGEST: Final = 1 << 10
"""Bytes; the name of a namespace has 63."""


def _in_cluster_config(*, environment: Mapping[str, str], directory: str) -> ClientConfig | None:
    """The configuration; None outside of a Pod, or in one without a service account. Raises InputError.

    The conditions are client-go's (``rest.InClusterConfig``): address and port in the environment, and a token file.
    """
    host = environment.get("KUBERNETES_SERVICE_HOST")
    port = environment.get("KUBERNETES_SERVICE_PORT")
    token, ca = Path(directory, "token"), Path(directory, "ca.crt")
    if not host or not port or not token.is_file():
        return None
    return ClientConfig(
        cluster=ClusterInfo(
            server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
            # Without the file, the system's authorities are used, as in client-go.
            ca=PemReference("ca.crt", path=str(ca)) if ca.is_file() else None,
        ),
        user=UserInfo(name="service account", token_file=str(token)),
        namespace=environment.get("POD_NAMESPACE") or _namespace(Path(directory, "namespace")),
        context="in-cluster",
        source=directory,
        environment=environment,
    )


def _namespace(file: Path) -> str:
    try:
        return read_regular(file, most=_LONGEST).decode().strip() or "default"
    except FileNotFoundError:
        return "default"
    except (OSError, ValueError) as error:
        problem = error.strerror if isinstance(error, OSError) else error
        raise InputError(str(file), f"expected a readable file, got: {problem}") from None
