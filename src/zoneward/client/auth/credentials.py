"""The credentials of a request: a fixed token, password or certificate, a token file, or the output of a plugin."""

import asyncio
import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import quote

from zoneward.client.api_errors import NoCredentials
from zoneward.client.auth.client_config import ClientConfig, ImpersonationConfig
from zoneward.client.auth.exec_plugin import ExecCredential, run_plugin
from zoneward.client.auth.rotated_files import PemReader, RotatedFile
from zoneward.client.auth.tls import ClientCertificate
from zoneward.kube.input_error import InputError

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
