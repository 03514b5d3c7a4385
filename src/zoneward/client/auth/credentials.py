"""The credentials of a request: a fixed token, password or certificate, a token file, or the output of a plugin,
which is a command that logs in somewhere and prints credentials (client.authentication.k8s.io).
"""

import asyncio
import base64
import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from subprocess import DEVNULL, PIPE
from typing import Any, Final
from urllib.parse import quote

from zoneward.client.api_errors import NoCredentials
from zoneward.client.auth.client_config import ClientConfig, ClusterInfo, ExecPluginConfig, ImpersonationConfig
from zoneward.client.auth.kubeconfig import DocumentFields
from zoneward.client.auth.tls import ClientCertificate, PemReader, RotatedFile
from zoneward.client.transport_interface import all_results
from zoneward.kube.input_error import InputError, show

_PLAIN_IN_HEADER_NAMES = "!#$&'*+-.^_`|~"


@dataclass(frozen=True, slots=True)
class Identity:
    """The header ``Authorization`` and the client certificate of a request; either may be None."""

    authorization: str | None = field(default=None, repr=False)
    certificate: ClientCertificate | None = None


class Credentials:
    """The credentials for the server. ``now`` is the wall clock, with a time zone, for the expiry of answers."""

    def __init__(self, access: ClientConfig, *, now: Callable[[], datetime], is_terminal: bool) -> None:
        user = access.user
        self._access, self._now, self._is_terminal = access, now, is_terminal
        self._token_file = None
        if user.token_file:
            self._token_file = RotatedFile(user.token_file, location="tokenFile", source=access.source)
        self._pair = None
        if user.certificate and user.key:
            self._pair = (
                PemReader(user.certificate, source=access.source),
                PemReader(user.key, source=access.source),
            )
        self._from_plugin: ExecCredential | None = None
        self._one_at_a_time = asyncio.Lock()

    async def current(self) -> Identity:
        """The credentials to send now. Runs the plugin, if there is one and its answer is absent or expired.

        Raises NoCredentials.
        """
        try:
            if self._has_plugin:
                async with self._one_at_a_time:
                    given = self._from_plugin
                    if given is None or (given.expires is not None and self._now() >= given.expires):
                        self._from_plugin = await run_plugin(self._access, is_terminal=self._is_terminal)
            return self._identity()
        except InputError as error:
            raise NoCredentials(error) from error

    async def replacement_for(self, refused: Identity) -> Identity | None:
        """The credentials to try after the server refused some with 401; None if there are no others.

        If many requests were refused at once, the first runs the plugin, and the others share its answer.
        """
        try:
            if self._has_plugin:
                async with self._one_at_a_time:
                    if self._identity() == refused:
                        self._from_plugin = await run_plugin(self._access, is_terminal=self._is_terminal)
            identity = self._identity()
        except InputError as error:
            raise NoCredentials(error) from error
        return identity if identity != refused else None

    @property
    def _has_plugin(self) -> bool:
        # As in client-go, the plugin is not used if the user has a token or a password.
        user = self._access.user
        return user.exec_plugin is not None and not (user.token or user.token_file or user.basic)

    def _identity(self) -> Identity:
        given = self._from_plugin
        certificate = given.certificate if given else None
        if self._pair is not None:
            assert self._access.user.certificate is not None
            chain, key = (pem.read() for pem in self._pair)
            certificate = ClientCertificate(chain, key, self._access.user.certificate.location)
        return Identity(self._authorization(given.token if given else None), certificate)

    def _authorization(self, given: str | None) -> str | None:
        user = self._access.user
        if user.basic:
            return "Basic " + base64.b64encode(":".join(user.basic).encode()).decode()
        token, location = given or user.token, "token"
        if self._token_file is not None:
            try:
                token, location = self._token_file.read().decode("utf-8", "replace").strip() or token, "tokenFile"
            except InputError:
                if token is None:
                    raise
        if token is None:
            return None
        # A line break in a header would start another header.
        if not token.isascii() or not token.isprintable() or not token:
            raise InputError(self._access.source, f"user {user.name}", location, "expected a token, got something else")
        return f"Bearer {token}"


def impersonation_headers(impersonation: ImpersonationConfig) -> list[tuple[str, str]]:
    """The headers for impersonation; names of extras are escaped as client-go escapes them."""
    if not impersonation.user:
        return []
    headers = [("Impersonate-User", impersonation.user)]
    headers += [("Impersonate-Uid", impersonation.uid)] if impersonation.uid else []
    headers += [("Impersonate-Group", group) for group in impersonation.groups]
    for name, values in impersonation.extra:
        header = f"Impersonate-Extra-{quote(name, safe=_PLAIN_IN_HEADER_NAMES)}"
        headers += [(header, value) for value in values]
    return headers


# --- credential plugins -----------------------------------------------------------------------------------------------


TIME_LIMIT: Final = 60.0
"""Seconds for a plugin that is not interactive."""
INTERACTIVE_TIME_LIMIT: Final = 300.0
"""Seconds for an interactive plugin: a person may need a browser or a phone to log in."""
_CLOSE_TIME_LIMIT: Final = 1.0
MAX_OUTPUT: Final = 1 << 20
"""Bytes of a plugin's output. A certificate chain has a few thousand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecCredential:
    """What a plugin returned; ``expires`` None: valid until the server refuses it."""

    token: str | None = field(repr=False)
    certificate: ClientCertificate | None
    expires: datetime | None


async def run_plugin(access: ClientConfig, *, is_terminal: bool, time_limit: float = TIME_LIMIT) -> ExecCredential:
    """The credentials that the plugin of the user prints.

    ``is_terminal``: standard input is a terminal. The plugin then uses it, unless its interactiveMode is Never.
    Otherwise it runs without input, and the last line of its error output becomes part of the error. Raises InputError:
    no such command (with its install hint), failure, no answer in time, an unusable answer.
    """
    plugin = access.user.exec_plugin
    assert plugin is not None
    interactive = is_terminal and plugin.interactive != "Never"
    if plugin.interactive == "Always" and not is_terminal:
        raise _error(access, "expected a terminal to log in at (interactiveMode Always), got none")
    limit = INTERACTIVE_TIME_LIMIT if interactive else time_limit
    process = await _start(plugin, access, interactive=interactive)
    try:
        async with asyncio.timeout(limit):
            output, errors = await all_results((_read_output(process.stdout), _read_tail(process.stderr)))
            await process.wait()
    except (TimeoutError, asyncio.CancelledError) as error:
        await _end(process, is_group=not interactive)
        if isinstance(error, TimeoutError):
            raise _error(access, f"expected credentials within {limit:g} s, got none") from None
        raise
    except _OutputTooLarge:
        await _end(process, is_group=not interactive)
        raise _error(access, f"expected credentials of at most {MAX_OUTPUT >> 20} MiB, got more") from None
    if process.returncode:
        ending = f"exit status {process.returncode}" if process.returncode > 0 else f"signal {-process.returncode}"
        lines = errors.decode("utf-8", "replace").strip().splitlines()
        raise _error(access, f"expected exit status 0, got {ending}" + (f": {lines[-1]}" if lines else ""))
    return _credential(output, plugin, access)


class _OutputTooLarge(Exception):  # noqa: N818  (it never leaves this module)
    """The output of a plugin exceeds `MAX_OUTPUT`."""


async def _read_output(stream: asyncio.StreamReader | None) -> bytes:
    """The whole output. Raises _OutputTooLarge."""
    assert stream is not None
    output = bytearray()
    while block := await stream.read(1 << 16):
        output += block
        if len(output) > MAX_OUTPUT:
            raise _OutputTooLarge
    return bytes(output)


async def _read_tail(stream: asyncio.StreamReader | None) -> bytes:
    tail = b""
    while stream is not None and (block := await stream.read(1 << 16)):
        tail = (tail + block)[-(1 << 16) :]
    return tail


async def _start(plugin: ExecPluginConfig, access: ClientConfig, *, interactive: bool) -> asyncio.subprocess.Process:
    environment = {**access.environment, **dict(plugin.environment)}
    environment["KUBERNETES_EXEC_INFO"] = _info(plugin, access, interactive=interactive)
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.arguments,
            env=environment,
            stdin=None if interactive else DEVNULL,
            stdout=PIPE,
            stderr=None if interactive else PIPE,
            # So that its child processes end with it. At a terminal it has to stay in the session of the keyboard.
            start_new_session=not interactive,
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        # If this call were cancelled, asyncio would kill only the plugin, and wait forever for its child processes.
        with suppress(OSError, ValueError):
            await _end(await starting, is_group=not interactive)
        raise
    except (OSError, ValueError) as error:
        missing = isinstance(error, FileNotFoundError)
        got = "no such command" if missing else (isinstance(error, OSError) and error.strerror) or str(error)
        hint = f": {plugin.install_hint}" if missing and plugin.install_hint else ""
        raise _error(access, f"expected a command that can be run, got {got}{hint}") from None


async def _end(process: asyncio.subprocess.Process, *, is_group: bool) -> None:
    with suppress(ProcessLookupError):
        if is_group:
            # Also if the plugin has ended and a child process still holds the pipe.
            os.killpg(process.pid, signal.SIGKILL)
        elif process.returncode is None:
            # `Process.kill` would first ask for the exit status, which asyncio then misses: "Unknown child process".
            os.kill(process.pid, signal.SIGKILL)
    # Read the pipes to their end: only then asyncio closes them.
    with suppress(TimeoutError):
        async with asyncio.timeout(_CLOSE_TIME_LIMIT):
            await process.communicate()


def _info(plugin: ExecPluginConfig, access: ClientConfig, *, interactive: bool) -> str:
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.provides_cluster_info:
        spec["cluster"] = _cluster_info(access.cluster, access.source)
    return json.dumps({"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec})


def _cluster_info(cluster: ClusterInfo, source: str) -> dict[str, Any]:
    info: dict[str, Any] = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure or None,
        "proxy-url": cluster.proxy,
        "disable-compression": None if cluster.is_compressed else True,
        "config": cluster.exec_config,
    }
    if cluster.ca:
        info["certificate-authority-data"] = base64.b64encode(PemReader(cluster.ca, source=source).read()).decode()
    return {name: value for name, value in info.items() if value is not None}


def _credential(output: bytes, plugin: ExecPluginConfig, access: ClientConfig) -> ExecCredential:
    try:
        document = json.loads(output)
    except (ValueError, RecursionError):
        raise _error(access, "expected an ExecCredential in JSON, got something else") from None
    answer = DocumentFields(document, source=_source(access))
    for name, expected in (("kind", "ExecCredential"), ("apiVersion", plugin.api_version)):
        if answer.text(name) != expected:
            raise answer.error(name, expected, show(answer.text(name)))
    status = answer.inner("status")
    chain, key = status.text("clientCertificateData"), status.text("clientKeyData", is_secret=True)
    token = status.text("token", is_secret=True)
    if bool(chain) != bool(key):
        given, absent = ("clientCertificateData", "clientKeyData")[:: 1 if chain else -1]
        raise status.error(absent, f"a value beside {given}", "none")
    if not token and not chain:
        raise status.error("", "a token or a client certificate", "none")
    certificate = None
    if chain:
        certificate = ClientCertificate(chain.encode(), key.encode(), f"exec {plugin.command}: clientCertificateData")
    return ExecCredential(token=token or None, certificate=certificate, expires=_expiry(status))


def _expiry(status: DocumentFields) -> datetime | None:
    text = status.text("expirationTimestamp")
    if not text:
        return None
    try:
        expires = datetime.fromisoformat(text)
    except ValueError:
        expires = None
    if expires is None or expires.tzinfo is None:
        raise status.error("expirationTimestamp", "a time as in RFC 3339", show(text))
    return expires


def _error(access: ClientConfig, problem: str) -> InputError:
    return InputError(_source(access), problem)


def _source(access: ClientConfig) -> str:
    assert access.user.exec_plugin is not None
    return f"{access.source}: user {access.user.name}: exec {access.user.exec_plugin.command}"
