"""etcd, kube-apiserver, kube-scheduler and kube-controller-manager, in the box. As published, with RBAC."""

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import trustme
from cluster.box import Box, BoxError
from cluster.sites import CONTROL_PLANE_IPS, PODS, SERVER, SERVICES, Site
from e2e.control_plane import controller_flags, etcd_flags, write_kubeconfig, write_private
from e2e.processes import wait_until

ADMIN: Final = "admin"
KUBE_PROXY: Final = "system:kube-proxy"
CONTROLLER_MANAGER: Final = "kube-controller-manager"
_CONTROLLERS_PORT: Final = 10257
_CONTROLLERS_QUICK: Final = ("--kube-api-qps=100", "--kube-api-burst=200")


class ControlPlane:
    """Of a box, which another process may have made."""

    def __init__(self, box: Box, programs: Mapping[str, Path]) -> None:
        self._box, self._programs = box, programs
        self._keys = box.folder / "keys"
        self.controller_flags: tuple[str, ...] = ()
        """More of them for kube-controller-manager, when it starts the next time."""

    @property
    def kubectl_command(self) -> list[str | Path]:
        return [self._programs["kubectl"], f"--kubeconfig={self.kubeconfig()}"]

    def kubectl(self, *arguments: str | Path, text: str | None = None) -> str:
        """The output of a command, as the cluster's administrator. Raises BoxError."""
        return self._box.run(*self.kubectl_command, *arguments, text=text)

    def kubeconfig(self, user: str = ADMIN) -> Path:
        """The file of a user: ``admin``, ``system:kube-proxy`` or ``system:node:NODE``; or of one that was written."""
        return self._keys / f"{user.rsplit(':', 1)[-1]}.kubeconfig"

    def write_kubeconfig(self, user: str, token: str) -> Path:
        file = self.kubeconfig(user)
        write_kubeconfig(file, user, server=SERVER, authority=self._authority, token=token)
        return file

    # --- its programs -------------------------------------------------------------------------------------------------

    def start(self, sites: Sequence[Site]) -> None:
        """All but controllers, once the API server is ready."""
        self._keys.mkdir(mode=0o700)
        self._write_secrets(sites)
        client, peer = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
        etcd = self._box.start(
            "etcd",
            [
                self._programs["etcd"],
                *etcd_flags(self._box.folder / "etcd", client=client, peer=peer),
            ],
            goes_first=True,
        )
        server = self._box.start(
            "kube-apiserver",
            [
                self._programs["kube-apiserver"],
                f"--etcd-servers={client}",
                "--secure-port=6443",
                "--bind-address=0.0.0.0",
                f"--advertise-address={CONTROL_PLANE_IPS[0]}",
                f"--cert-dir={self._authority.parent}",
                f"--service-account-key-file={self._key}",
                f"--service-account-signing-key-file={self._key}",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--token-auth-file={self._keys / 'tokens.csv'}",
                "--authorization-mode=Node,RBAC",
                f"--service-cluster-ip-range={SERVICES}",
                "--allow-privileged=true",
                "--kubelet-preferred-address-types=InternalIP",
            ],
            goes_first=True,
        )
        wait_until(self._is_ready, "kube-apiserver ready", etcd, server)
        kubeconfig = self.kubeconfig()
        self._box.start(
            "kube-scheduler",
            [
                self._programs["kube-scheduler"],
                f"--kubeconfig={kubeconfig}",
                f"--authentication-kubeconfig={kubeconfig}",
                f"--authorization-kubeconfig={kubeconfig}",
                "--leader-elect=false",
                "--bind-address=127.0.0.1",
                f"--cert-dir={self._keys / 'kube-scheduler'}",
            ],
            goes_first=True,
        )

    def start_controllers(self, *, without: Sequence[str] = ()) -> None:
        """The controller manager, in place of the one that runs; without some of its controllers."""
        self._box.end(CONTROLLER_MANAGER)
        names = ["*", *(f"-{name}" for name in without)]
        certificates = self._keys / CONTROLLER_MANAGER
        self._box.start(
            CONTROLLER_MANAGER,
            [
                self._programs[CONTROLLER_MANAGER],
                *controller_flags(self.kubeconfig(), names, port=_CONTROLLERS_PORT, certificates=certificates),
                "--use-service-account-credentials=true",
                f"--root-ca-file={self._authority}",
                f"--service-account-private-key-file={self._key}",
                f"--cluster-cidr={PODS}",
                f"--service-cluster-ip-range={SERVICES}",
                # The nodes' networks are made before the nodes.
                "--allocate-node-cidrs=false",
                # It makes this folder, and would make one that nothing removes.
                f"--flex-volume-plugin-dir={self._box.folder / 'volume-plugins'}",
                *_CONTROLLERS_QUICK,
                *self.controller_flags,
            ],
            goes_first=True,
        )

    def _is_ready(self) -> bool:
        try:
            return self.kubectl("get", "--raw=/readyz") == "ok" and bool(self.kubectl("get", "namespace", "default"))
        except BoxError:
            return False

    # --- its secrets --------------------------------------------------------------------------------------------------

    @property
    def _key(self) -> Path:
        return self._keys / "service-accounts.key"

    @property
    def _authority(self) -> Path:
        """Made by the API server when it starts."""
        return self._keys / "kube-apiserver" / "apiserver.crt"

    def _write_secrets(self, sites: Sequence[Site]) -> None:
        write_private(self._key, trustme.CA().private_key_pem.bytes().decode())
        users = {ADMIN: "system:masters", KUBE_PROXY: ""}
        users |= {f"system:node:{site.name}": "system:nodes" for site in sites}
        lines = []
        for index, (user, group) in enumerate(users.items()):
            token = secrets.token_urlsafe(24)
            self.write_kubeconfig(user, token)
            lines.append(f'{token},{user},{index},"{group}"\n')
        write_private(self._keys / "tokens.csv", "".join(lines))
