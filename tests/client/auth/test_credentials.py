"""Credentials for the server: tokens that files and plugins renew, certificates, and impersonation."""

import asyncio
import json
import os
import ssl
import stat
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
import trustme
from tests.client.serving import access_to
from tests.patience import PATIENCE

from zoneward.client.api_errors import NoCredentials
from zoneward.client.auth import credentials as credentials_module
from zoneward.client.auth.client_config import (
    ClientConfig,
    ExecPluginConfig,
    ImpersonationConfig,
    PemReference,
    UserInfo,
)
from zoneward.client.auth.credentials import Credentials, ExecCredential, impersonation_headers, run_plugin
from zoneward.client.auth.tls import ClientCertificate, TlsContexts, secret_file
from zoneward.kube.input_error import InputError

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
V1, V1BETA1 = "client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"
ENVIRONMENT = {"PATH": os.environ["PATH"]}


def for_user(user: UserInfo, **cluster: Any) -> ClientConfig:
    return replace(access_to("https://h:6443", user=user, **cluster), environment=ENVIRONMENT)


def credentials(user: UserInfo, *, now: Callable[[], datetime] = lambda: NOON) -> Credentials:
    return Credentials(for_user(user), now=now, is_terminal=False)


async def authorization(user: UserInfo) -> str | None:
    return (await credentials(user).current()).authorization


async def refusal(call: Awaitable[object]) -> str:
    with pytest.raises((NoCredentials, InputError)) as caught:
        await call
    return str(caught.value)


async def test_a_token_is_a_bearer_and_a_password_is_basic() -> None:
    assert await authorization(UserInfo(token="t")) == "Bearer t"
    assert await authorization(UserInfo(basic=("jane", "pässword"))) == "Basic amFuZTpww6Rzc3dvcmQ="
    assert await authorization(UserInfo()) is None
    assert await authorization(replace(plugin("no-such-login"), token="own")) == "Bearer own"


async def test_a_token_file_is_read_again_when_it_changes_and_the_last_token_outlives_it(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one\n")
    from_file = credentials(UserInfo(token_file=str(file)))
    first = await from_file.current()
    assert first.authorization == "Bearer one"
    assert await from_file.replacement_for(first) is None
    # As the kubelet does it: another file takes the name.
    (tmp_path / "next").write_text("two\n")
    (tmp_path / "next").rename(file)
    other = await from_file.replacement_for(first)
    assert other is not None
    assert other.authorization == "Bearer two"
    file.unlink()
    assert (await from_file.current()).authorization == "Bearer two"


async def test_a_token_file_goes_before_the_token_which_serves_while_there_is_no_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    assert await authorization(UserInfo(token="written", token_file=str(file))) == "Bearer written"
    line = "kubeconfig.yaml: tokenFile: expected a readable file /none/token, got: No such file or directory"
    assert await refusal(credentials(UserInfo(token_file="/none/token")).current()) == line
    file.write_text("read")
    assert await authorization(UserInfo(token="written", token_file=str(file))) == "Bearer read"


async def test_what_is_no_token_is_never_sent(tmp_path: Path) -> None:
    file = tmp_path / "token"
    for content in (b"a\r\nX-Other: b", b"\xff\xfe", "tökén".encode()):
        file.write_bytes(content)
        line = await refusal(credentials(UserInfo(name="u", token_file=str(file))).current())
        assert line == "kubeconfig.yaml: user u: tokenFile: expected a token, got something else"
    file.write_bytes(b" \n")
    assert await authorization(UserInfo(token_file=str(file))) is None


async def test_pipe_is_no_file_of_credentials_and_is_not_waited_for(tmp_path: Path) -> None:
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    line = await refusal(credentials(UserInfo(token_file=pipe)).current())
    assert line == f"kubeconfig.yaml: tokenFile: expected a readable file {pipe}, got: it is not a regular file"
    pair = UserInfo(certificate=PemReference("client-certificate", data=b""), key=PemReference("client-key", path=pipe))
    assert "client-key: expected a readable file" in await refusal(credentials(pair).current())
    config = for_user(UserInfo(), ca=PemReference("certificate-authority", path=pipe))
    with pytest.raises(InputError, match="certificate-authority: expected a readable file"):
        TlsContexts(config).context(None)


def script(tmp_path: Path, text: str) -> str:
    path = tmp_path / "login"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def answer(version: str = V1, **status: object) -> str:
    """A script that prints an ExecCredential; the shell expands $VARIABLE in it."""
    document = {"apiVersion": version, "kind": "ExecCredential", "status": status}
    return f"cat <<END\n{json.dumps(document)}\nEND"


def plugin(command: str, **fields: Any) -> UserInfo:
    return UserInfo(
        name="u",
        exec_plugin=ExecPluginConfig(**{"api_version": V1, "command": command, "interactive": "Never"} | fields),
    )


def counted(tmp_path: Path) -> str:
    """A line of a script that puts into $N how often it has been run."""
    return f'echo >> "{tmp_path}/runs"; N=$(wc -l < "{tmp_path}/runs")'


@pytest.mark.parametrize("version", [V1, V1BETA1])
async def test_a_plugin_gets_arguments_environment_and_cluster_and_gives_a_token(tmp_path: Path, version: str) -> None:
    command = script(
        tmp_path, f'printf %s "$KUBERNETES_EXEC_INFO" > "{tmp_path}/info"\n{answer(version, token="$1-$A")}'
    )
    user = plugin(
        command, api_version=version, arguments=("x y",), environment=(("A", "b"),), provides_cluster_info=True
    )
    cluster: dict[str, Any] = {
        "ca": PemReference("ca", data=b"PEM"),
        "tls_server_name": "name",
        "proxy": "http://p",
        "is_compressed": False,
        "exec_config": {"audience": "a"},
    }
    given = await run(user, **cluster)
    assert (given.token, given.certificate, given.expires) == ("x y-b", None, None)
    assert json.loads((tmp_path / "info").read_text()) == {
        "apiVersion": version,
        "kind": "ExecCredential",
        "spec": {
            "interactive": False,
            "cluster": {
                "server": "https://h:6443",
                "tls-server-name": "name",
                "certificate-authority-data": "UEVN",
                "proxy-url": "http://p",
                "disable-compression": True,
                "config": {"audience": "a"},
            },
        },
    }


async def run(user: UserInfo, *, is_terminal: bool = False, time_limit: float = 60.0, **cluster: Any) -> ExecCredential:
    return await run_plugin(for_user(user, **cluster), is_terminal=is_terminal, time_limit=time_limit)


async def test_a_plugin_is_run_once_until_what_it_gave_expires(tmp_path: Path) -> None:
    expiry = (NOON + timedelta(minutes=5)).isoformat().replace("+00:00", "Z")
    command = script(tmp_path, f"{counted(tmp_path)}\n{answer(token='t$N', expirationTimestamp=expiry)}")
    time = NOON
    from_plugin = credentials(plugin(command), now=lambda: time)
    for minutes, token in ((0, "t1"), (4, "t1"), (5, "t2")):
        time = NOON + timedelta(minutes=minutes)
        assert (await from_plugin.current()).authorization == f"Bearer {token}"


async def test_many_requests_at_once_run_a_plugin_once_also_when_all_are_refused(tmp_path: Path) -> None:
    from_plugin = credentials(plugin(script(tmp_path, f"{counted(tmp_path)}\n{answer(token='t$N')}")))
    first = await asyncio.gather(*(from_plugin.current() for _ in range(5)))
    assert {identity.authorization for identity in first} == {"Bearer t1"}
    others = await asyncio.gather(*(from_plugin.replacement_for(first[0]) for _ in range(5)))
    assert {other.authorization for other in others if other} == {"Bearer t2"}


async def test_a_plugin_that_gives_the_refused_token_again_gives_nothing_to_try(tmp_path: Path) -> None:
    from_plugin = credentials(plugin(script(tmp_path, f"{counted(tmp_path)}\n{answer(token='t')}")))
    assert await from_plugin.replacement_for(await from_plugin.current()) is None
    assert (tmp_path / "runs").read_text() == "\n\n"


async def test_a_plugin_can_give_a_certificate(tmp_path: Path) -> None:
    certificate = trustme.CA().issue_cert("client")
    chain, key = certificate.cert_chain_pems[0].bytes().decode(), certificate.private_key_pem.bytes().decode()
    command = script(tmp_path, answer(clientCertificateData=chain, clientKeyData=key))
    identity = await credentials(plugin(command)).current()
    assert identity.authorization is None
    assert identity.certificate == ClientCertificate(chain.encode(), key.encode())


BAD_PLUGINS = {
    "failure": ("echo 'no session' >&2; echo 'log in first' >&2; exit 3", "0, got exit status 3: log in first"),
    "killed": ("kill -9 $$", "expected exit status 0, got signal 9"),
    "no JSON": ("echo token", "expected an ExecCredential in JSON, got something else"),
    "too deep": (f"printf '%s' '{'[' * 100_000}'", "expected an ExecCredential in JSON, got something else"),
    "endless": ("while :; do echo 'more and more and more and more and more'; done", "of at most 1 MiB, got more"),
    "another version": (answer(V1BETA1, token="t"), f"apiVersion: expected {V1}, got '{V1BETA1}'"),
    "nothing": (answer(), "status: expected a token or a client certificate, got none"),
    "no text": (answer(token=1), "status.token: expected a string, got something else"),
    "key alone": (answer(clientKeyData="k"), "clientCertificateData: expected a value beside clientKeyData, got none"),
    "certificate alone": (answer(clientCertificateData="k"), "status.clientKeyData: expected a value beside"),
    "no time": (answer(token="t", expirationTimestamp="soon"), "expected a time as in RFC 3339, got 'soon'"),
    "no zone": (answer(token="t", expirationTimestamp="2026-01-01T00:00:00"), "as in RFC 3339, got '2026-"),
}


@pytest.mark.parametrize("name", BAD_PLUGINS)
async def test_a_failure_of_a_plugin_is_reported_with_user_and_command(tmp_path: Path, name: str) -> None:
    text, expected = BAD_PLUGINS[name]
    line = await refusal(credentials(plugin(script(tmp_path, text))).current())
    assert line.startswith("kubeconfig.yaml: user u: exec ")
    assert expected in line


async def test_a_missing_plugin_or_terminal_is_reported_with_the_install_hint(tmp_path: Path) -> None:
    line = await refusal(run(plugin("no-such-login", install_hint="Run: apt install login")))
    prefix = "kubeconfig.yaml: user u: exec no-such-login: expected a command that can be run, got "
    assert line == prefix + "no such command: Run: apt install login"
    (tmp_path / "plain").write_text("x")
    line = await refusal(run(plugin(str(tmp_path / "plain"), install_hint="no")))
    assert line.endswith("expected a command that can be run, got Permission denied")
    line = await refusal(run(plugin("login", interactive="Always")))
    assert line.endswith("expected a terminal to log in at (interactiveMode Always), got none")


async def test_a_plugin_that_hangs_is_ended_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The shell is gone at once; what it started holds the pipe.
    command, start = script(tmp_path, f'sleep 600 & echo $! > "{tmp_path}/pid"'), credentials_module._start

    async def start_all(*given: Any, **options: Any) -> asyncio.subprocess.Process:
        plugin_process = await start(*given, **options)
        await _process_in(tmp_path / "pid")
        return plugin_process

    monkeypatch.setattr(credentials_module, "_start", start_all)
    line = await refusal(run(plugin(command), time_limit=0.05))
    assert line.endswith("expected credentials within 0.05 s, got none")
    assert _ends(await _process_in(tmp_path / "pid"))


async def test_a_plugin_ends_when_nobody_waits_for_it_any_more(tmp_path: Path) -> None:
    command = script(tmp_path, f'echo $$ > "{tmp_path}/pid"; exec sleep 600')
    asking = asyncio.create_task(credentials(plugin(command)).current())
    process = await _process_in(tmp_path / "pid")
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert _ends(process)


@pytest.mark.parametrize("turns", range(1, 6))
async def test_plugin_that_is_cancelled_while_it_starts_ends_with_all_that_it_started(
    tmp_path: Path, turns: int
) -> None:
    file = tmp_path / "pid"
    command = script(tmp_path, f'sleep 600 & echo $! > "{file}"; wait')
    asking = asyncio.create_task(run(plugin(command)))
    for _ in range(turns):
        await asyncio.sleep(0)
    # The event loop has no turn before the plugin, if it runs, has started another process, which holds its pipe.
    sleep(0.3)
    asking.cancel()
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(asyncio.CancelledError):
            await asking
    # The plugin may have ended before it wrote the process id.
    assert not file.exists() or not (pid := file.read_text()) or _ends(int(pid))


async def _process_in(file: Path) -> int:
    """The process whose id is in a file, once it is there."""
    async with asyncio.timeout(PATIENCE):
        while not file.exists() or not file.read_text():
            await asyncio.sleep(0.005)
    return int(file.read_text())


def _ends(process: int) -> bool:
    """Whether it is gone, or a zombie, soon: after the signal the kernel takes its time."""
    limit = monotonic() + PATIENCE
    while monotonic() < limit:
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state in ("Z", "X"):
            return True
        sleep(0.005)
    return False


@pytest.mark.parametrize(
    ("mode", "is_terminal", "token"),
    [
        ("Always", True, "True-typed"),
        ("IfAvailable", True, "True-typed"),
        ("IfAvailable", False, "False-"),
        ("Never", True, "False-"),
    ],
)
async def test_a_plugin_at_a_terminal_may_ask_unless_it_never_wants_to(
    tmp_path: Path, mode: str, is_terminal: bool, token: str
) -> None:
    interactive = 'case "$KUBERNETES_EXEC_INFO" in *\'"interactive": true\'*) I=True;; *) I=False;; esac'
    user = plugin(script(tmp_path, f"{interactive}; read LINE; {answer(token='$I-$LINE')}"), interactive=mode)
    master, slave = os.openpty()
    standard_input = os.dup(0)
    try:
        os.dup2(slave, 0)
        os.write(master, b"typed\n")
        given = await run(user, is_terminal=is_terminal)
    finally:
        os.dup2(standard_input, 0)
        for descriptor in (master, slave, standard_input):
            os.close(descriptor)
    assert given.token == token


@pytest.mark.parametrize("is_linux", [True, False])
def test_a_secret_has_a_path_only_while_it_is_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_linux: bool
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    if not is_linux:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    with secret_file(b"secret") as path:
        assert Path(path).read_bytes() == b"secret"
        on_disk = list(tmp_path.iterdir())
        assert [str(file) for file in on_disk] == ([] if is_linux else [path])
        assert {stat.S_IMODE(file.stat().st_mode) for file in on_disk} <= {0o600}
    assert not Path(path).exists()
    certificate = trustme.CA().issue_cert("client")
    pair = ClientCertificate(certificate.cert_chain_pems[0].bytes(), certificate.private_key_pem.bytes())
    contexts = TlsContexts(access_to("https://h"))
    assert contexts.context(pair) is contexts.context(pair)
    assert contexts.context(pair) is not contexts.context(None)
    assert not list(tmp_path.iterdir())


async def test_certificate_files_are_read_again_and_half_a_new_pair_leaves_the_old_one(tmp_path: Path) -> None:
    authority = trustme.CA()
    first, second = authority.issue_cert("a"), authority.issue_cert("b")
    chain, key = str(tmp_path / "chain"), str(tmp_path / "key")
    first.cert_chain_pems[0].write_to_path(chain)
    first.private_key_pem.write_to_path(key)
    user = UserInfo(certificate=PemReference("client-certificate", chain), key=PemReference("client-key", key))
    from_files, contexts = credentials(user), TlsContexts(for_user(user))

    async def current() -> ssl.SSLContext:
        return contexts.context((await from_files.current()).certificate)

    old = await current()
    second.cert_chain_pems[0].write_to_path(chain)
    assert await current() is old
    second.private_key_pem.write_to_path(key)
    assert await current() is not old


def test_a_key_that_does_not_fit_or_has_a_passphrase_is_reported_without_a_prompt() -> None:
    one, other = trustme.CA().issue_cert("a"), trustme.CA().issue_cert("b")
    chain = one.cert_chain_pems[0].bytes()
    contexts = TlsContexts(access_to("https://h"))
    expected = "kubeconfig.yaml: users[0].user.client-certificate: expected a certificate and its key in PEM, "
    for key, got in (
        (other.private_key_pem.bytes(), "got key values mismatch"),
        (_locked(one.private_key_pem.bytes()), "got "),
        (b"no key", "got "),
    ):
        with pytest.raises(InputError) as caught:
            contexts.context(ClientCertificate(chain, key, "users[0].user.client-certificate"))
        assert str(caught.value).startswith(expected + "the key without a passphrase, " + got)


def test_a_passphrase_is_not_asked_for_at_the_terminal(tmp_path: Path) -> None:
    pair = trustme.CA().issue_cert("a")
    for name, data in (("chain", pair.cert_chain_pems[0].bytes()), ("key", _locked(pair.private_key_pem.bytes()))):
        (tmp_path / name).write_bytes(data)
    master, slave = os.openpty()
    with os.fdopen(master, "rb", buffering=0) as screen:
        command = [sys.executable, "-c", _LOADING, str(tmp_path)]
        subprocess.run(
            command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True, timeout=PATIENCE, check=True
        )
        assert screen.read(1000) == b"refused\r\n", "it asked"
    os.close(slave)


_LOADING = """
import fcntl, pathlib, sys, termios
from zoneward.kube.input_error import InputError
from zoneward.client.auth.client_config import ClientConfig, ClusterInfo, UserInfo
from zoneward.client.auth.tls import ClientCertificate, TlsContexts
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
folder = pathlib.Path(sys.argv[1])
certificate = ClientCertificate((folder / "chain").read_bytes(), (folder / "key").read_bytes())
try:
    TlsContexts(ClientConfig(cluster=ClusterInfo(server="https://h"), user=UserInfo())).context(certificate)
except InputError:
    print("refused")
"""


def _locked(key: bytes) -> bytes:
    from cryptography.hazmat.primitives import serialization as s

    plain = s.load_pem_private_key(key, None)
    return plain.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.BestAvailableEncryption(b"word"))


def test_invalid_authorities_are_reported_and_comments_are_ignored() -> None:
    def loaded(data: bytes) -> ssl.SSLContext:
        return TlsContexts(access_to("https://h", ca=PemReference("ca-data", data=data))).context(None)

    for data in (b"nothing", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"):
        with pytest.raises(InputError, match=r"^kubeconfig\.yaml: ca-data: expected certificates in PEM, got "):
            loaded(data)
    assert len(loaded("# Unsere Autorität\n".encode() + trustme.CA().cert_pem.bytes()).get_ca_certs()) == 1


def test_impersonation_is_headers_with_escaped_names_of_extras() -> None:
    extra = (("acme.com/project", ("a", "b")),)
    whole = ImpersonationConfig(user="jane", uid="7", groups=("g", "h"), extra=extra)
    headers = [(name.removeprefix("Impersonate-"), value) for name, value in impersonation_headers(whole)]
    assert headers[:4] == [("User", "jane"), ("Uid", "7"), ("Group", "g"), ("Group", "h")]
    assert headers[4:] == [("Extra-acme.com%2Fproject", "a"), ("Extra-acme.com%2Fproject", "b")]
