"""A real control plane on loopback: etcd, kube-apiserver and, on request, controllers; no kubelet, no scheduler.

It has free ports, a data folder, keys and tokens. Everything ends with the block; if the test process is killed, the
kernel kills the programs.
"""

import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import CompletedProcess
from typing import Final, NamedTuple, Self

import trustme
import yaml
from e2e.ports import free_port
from e2e.processes import Process, ProcessError, fetch, wait_until
from e2e.programs import find_programs
from tests.contract.api import Api, ApiError, Object

ADMIN: Final = "admin"
QUICK: Final = ("--kube-api-qps=500", "--kube-api-burst=1000")
"""Flags for controllers that are not measured: with their usual 20 requests a second, a namespace takes long to end."""
SLICE_CONTROLLERS: Final = ("endpointslice-controller", "endpointslice-mirroring-controller")
SERVICE_CLUSTER_IPS: Final = "10.96.0.0/12,fd00:10:96::/108"
"""Dual-stack, IPv4 first."""
_RBAC: Final = "rbac.authorization.k8s.io"
_LOOPBACK: Final = "127.0.0.1"
_ISSUER: Final = "https://kubernetes.default.svc"
_ADVERTISED: Final = "10.99.0.1"
"""The Service "kubernetes" must have an address that is not loopback; nobody connects to it."""
_STARTS: Final = 3
"""A port that was free may be taken by the time a program wants it."""
_TAKEN: Final = "address already in use"


@dataclass(frozen=True)
class User:
    name: str
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    groups: tuple[str, ...] = ()


class Ports(NamedTuple):
    etcd: int
    etcd_peers: int
    server: int
    controllers: int


class ControlPlane:
    """Used as a context manager: starts on entering, ready once entered, ended and removed on leaving.

    ``users`` are known by name and have no permissions until ``allow`` grants some. ``controllers`` are names of the
    controller manager's; without any it does not run. ``server_flags`` are added to kube-apiserver's.
    ``minor`` is Kubernetes', by default the one that the environment names.
    Data, keys and logs are in ``folder``, which is removed too.
    """

    def __init__(
        self,
        *,
        users: Sequence[str] = ("reader",),
        controllers: Sequence[str] = (),
        server_flags: Sequence[str] = (),
        minor: str | None = None,
    ) -> None:
        self.programs = find_programs(environment=os.environ, minor=minor)
        self.admin = User(ADMIN, groups=("system:masters",))
        self.users = {name: User(name) for name in users}
        self._controller_names = tuple(controllers)
        self._server_flags = tuple(server_flags)
        self._cleanup = ExitStack()
        self._etcd: Process | None = None
        self._server: Process | None = None
        self._controllers: Process | None = None

    # --- start and stop -----------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        with self._cleanup as cleanup:
            self.folder = Path(tempfile.mkdtemp(prefix="zoneward-control-plane-")).resolve()
            cleanup.callback(shutil.rmtree, self.folder, ignore_errors=True)
            # Called in the reverse order: controllers first; the API server hangs if etcd stops before it.
            for stop in (self._stop_etcd, self.stop_server, self.stop_controllers):
                cleanup.callback(stop)
            self._write_secrets()
            self._start_on_free_ports()
            if self._controller_names:
                self.start_controllers(*self._controller_names, flags=QUICK)
            self._cleanup = cleanup.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    @property
    def processes(self) -> list[Process]:
        """The running programs."""
        started = (self._etcd, self._server, self._controllers)
        return [process for process in started if process is not None and process.runs]

    @property
    def server(self) -> Process:
        """The API server."""
        assert self._server is not None
        return self._server

    # --- clients ------------------------------------------------------------------------------------------------------

    @property
    def address(self) -> str:
        return f"https://{_LOOPBACK}:{self.ports.server}"

    @property
    def authority(self) -> Path:
        """PEM of the API server's own certificate and the authority that signed it."""
        return self.folder / "certificates" / "apiserver.crt"

    def api(self, user: User | str = ADMIN) -> Api:
        return Api(self.address, self._known(user).token, self.authority)

    def kubeconfig(self, user: User | str = ADMIN) -> Path:
        """A file with one context, for that user."""
        known = self._known(user)
        name = known.name.rsplit(":", 1)[-1]
        file = self.folder / f"{name}.kubeconfig"
        write_kubeconfig(file, name, server=self.address, authority=self.authority, token=known.token)
        return file

    def allow(self, user: User | str, rules: Sequence[Object], *, until: str | None = None) -> None:
        """Grant a user a ClusterRole with these rules, once; and wait ``until`` the user may list this path."""
        known = self._known(user)
        common = {"apiVersion": f"{_RBAC}/v1", "metadata": {"name": f"allowed:{known.name}"}}
        role = {"kind": "ClusterRole", "rules": list(rules)}
        binding = {
            "kind": "ClusterRoleBinding",
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": f"allowed:{known.name}"},
            "subjects": [{"apiGroup": _RBAC, "kind": "User", "name": known.name}],
        }
        for object_ in (role, binding):
            self.api().create(common | object_)
        if until is not None:
            api = self.api(user)
            self.wait_until(lambda: api.send("GET", until).code == 200, what=f"{known.name} may list {until}")

    def service_account(self, name: str, *, namespace: str, pod: Object | None = None) -> User:
        """An existing service account, with a separate token, or with a Pod's."""
        spec: Object = {"expirationSeconds": 3600}
        if pod is not None:
            about = pod["metadata"]
            spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod", "name": about["name"], "uid": about["uid"]}
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        answer = self.api().request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", asked)
        return User(f"system:serviceaccount:{namespace}:{name}", token=answer["status"]["token"])

    def kubectl(self, *arguments: str) -> str:
        """The output of a command, as administrator."""
        command = [str(self.programs["kubectl"]), "--kubeconfig", str(self.kubeconfig()), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def zoneward(self, *arguments: str, user: User | str = ADMIN, check: bool = True) -> CompletedProcess[str]:
        """The command, as that user."""
        command = [sys.executable, "-m", "zoneward", *arguments]
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig(user))}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=120)
        assert done.returncode == 0 or not check, done.stderr
        return done

    def wait_until(self, met: Callable[[], object], *, what: str) -> None:
        """As `wait_until`, while its programs run."""
        wait_until(met, what, self._etcd, self._server, self._controllers)

    # --- its programs -------------------------------------------------------------------------------------------------

    def start_server(self) -> None:
        """Start the API server with the same address and data as before."""
        self._server = self._run_server(self.ports.server)
        self.wait_until(lambda: _is_ready(self.api()), what="kube-apiserver ready")

    @contextmanager
    def another_server(self) -> Iterator[tuple[Process, Path]]:
        """A second API server with the same data, as a process to freeze, and a kubeconfig of the administrator for it.

        It is ready: controllers end by themselves where their server is not within ten seconds.
        """
        port = free_port()
        known, file = self._known(ADMIN), self.folder / "another-server"
        address = f"https://{_LOOPBACK}:{port}"
        write_kubeconfig(file, ADMIN, server=address, authority=self.authority, token=known.token)
        server = self._run_server(port, log="another-kube-apiserver")
        try:
            api = Api(address, known.token, self.authority)
            wait_until(lambda: _is_ready(api), "another kube-apiserver ready", server)
            api.close()
            yield server, file
        finally:
            server.kill()

    def _run_server(self, port: int, *, log: str = "kube-apiserver") -> Process:
        return self._start(
            "kube-apiserver",
            f"--etcd-servers=http://{_LOOPBACK}:{self.ports.etcd}",
            f"--secure-port={port}",
            f"--bind-address={_LOOPBACK}",
            f"--advertise-address={_ADVERTISED}",
            f"--cert-dir={self.authority.parent}",
            f"--service-account-key-file={self._key}",
            f"--service-account-signing-key-file={self._key}",
            f"--service-account-issuer={_ISSUER}",
            f"--token-auth-file={self._tokens}",
            "--authorization-mode=RBAC",
            f"--service-cluster-ip-range={SERVICE_CLUSTER_IPS}",
            # As kubeadm has it.
            "--allow-privileged=true",
            # It rejects Pods until a controller has created a service account in each namespace.
            "--disable-admission-plugins=ServiceAccount",
            *self._server_flags,
            log=log,
        )

    def stop_server(self) -> None:
        if self._server is not None:
            self._server.kill()
            self._server = None

    def start_controllers(
        self, *names: str, flags: Sequence[str] = (), minor: str | None = None, kubeconfig: Path | None = None
    ) -> None:
        """The controller manager, or that of another minor, with these controllers only, once it is ready."""
        if minor is not None:
            name = "kube-controller-manager"
            self.programs[name] = find_programs(environment=os.environ, minor=minor)[name]
        certificates = self.folder / "controller-certificates"
        common = controller_flags(
            kubeconfig or self.kubeconfig(), names, port=self.ports.controllers, certificates=certificates
        )
        self._controllers = self._start("kube-controller-manager", *common, *flags)
        self.wait_until(self._controllers_listen, what="kube-controller-manager ready")

    def stop_controllers(self) -> None:
        if self._controllers is not None:
            self._controllers.kill()
            self._controllers = None

    def _start_etcd(self) -> None:
        client, peer = (f"http://{_LOOPBACK}:{port}" for port in (self.ports.etcd, self.ports.etcd_peers))
        self._etcd = self._start(
            "etcd",
            *etcd_flags(self.folder / "etcd", client=client, peer=peer),
        )
        self.wait_until(lambda: fetch(f"{client}/readyz")[0] == 200, what="etcd ready")

    def _stop_etcd(self) -> None:
        if self._etcd is not None:
            # Its data is removed with it: there is nothing to save.
            self._etcd.kill()
            self._etcd = None

    def _start(self, name: str, *flags: str, log: str = "") -> Process:
        return Process([self.programs[name], *flags], log=self.folder / f"{log or name}.log")

    def _start_on_free_ports(self) -> None:
        for left in reversed(range(_STARTS)):
            self.ports = Ports(*(free_port() for _ in Ports._fields))
            try:
                self._start_etcd()
                self.start_server()
            except ProcessError as error:
                if not left or _TAKEN not in str(error):
                    raise
                self.stop_server()
                self._stop_etcd()
                shutil.rmtree(self.folder / "etcd", ignore_errors=True)
            else:
                return

    def _controllers_listen(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((_LOOPBACK, self.ports.controllers)) == 0

    # --- its secrets --------------------------------------------------------------------------------------------------

    @property
    def _key(self) -> Path:
        return self.folder / "service-accounts.key"

    @property
    def _tokens(self) -> Path:
        return self.folder / "tokens.csv"

    def _write_secrets(self) -> None:
        # Only the key of this authority is needed: it signs the tokens of service accounts.
        write_private(self._key, trustme.CA().private_key_pem.bytes().decode())
        lines = [
            f'{user.token},{user.name},{index},"{",".join(user.groups)}"\n'
            for index, user in enumerate((self.admin, *self.users.values()))
        ]
        write_private(self._tokens, "".join(lines))

    def _known(self, user: User | str) -> User:
        if isinstance(user, User):
            return user
        return self.admin if user == ADMIN else self.users[user]


def _is_ready(server: Api) -> bool:
    try:
        ready = server.request("GET", "/readyz")["message"] == "ok"
        # The server creates this namespace a moment after it is ready.
        return ready and bool(server.get("/api/v1/namespaces/default"))
    except (ApiError, OSError):
        return False


def etcd_flags(folder: Path, *, client: str, peer: str) -> list[str]:
    """A separate etcd, with the addresses for its clients and its peer. Its data is removed with it."""
    return [
        "--name=etcd",
        f"--data-dir={folder}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=etcd={peer}",
        "--unsafe-no-fsync",
    ]


def controller_flags(kubeconfig: Path, names: Sequence[str], *, port: int = 0, certificates: Path) -> list[str]:
    """Of kube-controller-manager, for any API server. ``port`` 0: it does not listen."""
    return [
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--controllers={','.join(names)}",
        "--leader-elect=false",
        "--use-service-account-credentials=false",
        f"--bind-address={_LOOPBACK}",
        f"--secure-port={port}",
        f"--cert-dir={certificates}",
    ]


def write_kubeconfig(file: Path, user: str, *, server: str, authority: Path, token: str) -> None:
    """With one context, which is called as the user is."""
    cluster = {"server": server, "certificate-authority": str(authority)}
    content = {"apiVersion": "v1", "kind": "Config", "current-context": user} | {
        "contexts": [{"name": user, "context": {"cluster": "control-plane", "user": user}}],
        "clusters": [{"name": "control-plane", "cluster": cluster}],
        "users": [{"name": user, "user": {"token": token}}],
    }
    write_private(file, yaml.safe_dump(content))


def write_private(file: Path, text: str) -> None:
    """Write atomically, because running programs read the file again."""
    new = file.with_name(f"{file.name}.new")
    new.touch(mode=0o600)
    new.write_text(text)
    new.replace(file)
