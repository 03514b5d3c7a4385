"""A node's proxy runs with what its DaemonSet gives it, and only its small process may change the kernel's rules."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from e2e.nodes import Namespace
from e2e.processes import Process
from tests.deploy.manifests import PROXY_MODES, container, the

NODE = "worker-a2"
PATIENCE = 30.0
SETPRIV = ("setpriv", "--no-new-privs", "--inh-caps", "-all", "--bounding-set")
# As a container has it: what is mounted elsewhere (/tmp, /dev) stays as it is.
READ_ONLY = ("unshare", "--mount", "sh", "-c", 'mount -o remount,bind,ro / && exec "$@"', "sh")
NET_ADMIN = 1 << 12


class Place:
    """A namespace with the sample cluster's API server in it."""

    def __init__(self, namespace: Namespace, folder: Path) -> None:
        self.namespace, self.folder = namespace, folder
        self.kubeconfig = folder / "kubeconfig"

    def zoneward(self, *arguments: str, before: tuple[str, ...] = (), log: str) -> Process:
        command = [*self.namespace.enter, *before, sys.executable, "-m", "zoneward", *arguments]
        return Process(command, log=self.folder / f"{log}.log")

    def proxy(self, *options: str, before: tuple[str, ...]) -> Process:
        listen = ("--listen", "127.0.0.1:0", "--healthz-listen", "127.0.0.1:0")
        given = ("--node", NODE, "--kubeconfig", str(self.kubeconfig), *listen, *options)
        return self.zoneward("proxy", *given, before=before, log="proxy")

    def table(self) -> str:
        try:
            return self.namespace.run("nft", "list", "table", "ip", "zoneward")
        except subprocess.CalledProcessError:
            return ""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with ExitStack() as stack:
        namespace = Namespace()
        stack.callback(namespace.close)
        there = Place(namespace, tmp_path)
        given = ("--sample", "--port", "0", "--write-kubeconfig", str(there.kubeconfig))
        sandbox = stack.enter_context(there.zoneward("sandbox", *given, log="sandbox"))
        until(there.kubeconfig.exists, sandbox)
        yield there


def until(holds: Callable[[], object], *processes: Process) -> None:
    limit = time.monotonic() + PATIENCE
    while not holds():
        for each in processes:
            each.check()
        assert time.monotonic() < limit, [each.last_lines() for each in processes]
        time.sleep(0.02)


def capabilities(pid: int) -> dict[str, int]:
    """By the names of the kernel's sets: Inh, Prm, Eff, Bnd, Amb."""
    found = re.findall(r"^Cap(\w+):\s*(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return {name: int(value, 16) for name, value in found}


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def given_capabilities() -> str:
    """Those that the manifests add, as setpriv takes them."""
    (given,) = {tuple(container(mode)["securityContext"]["capabilities"]["add"]) for mode in PROXY_MODES}
    return ",".join(f"+{each.lower()}" for each in given)


def test_with_the_capabilities_of_the_manifests_and_no_file_to_write_only_the_small_process_has_any(
    place: Place,
) -> None:
    for mode in PROXY_MODES:
        security = container(mode)["securityContext"]
        assert (security["allowPrivilegeEscalation"], security["readOnlyRootFilesystem"]) == (False, True)
        assert the("DaemonSet", mode)["spec"]["template"]["spec"]["securityContext"]["runAsUser"] == os.getuid()
    with place.proxy(before=(*READ_ONLY, *SETPRIV, f"-all,{given_capabilities()}")) as proxy:
        until(lambda: "all is in the kernel" in proxy.log.read_text(), proxy)
        assert "10.96.0.10 . tcp . 53" in place.table()
        has = capabilities(proxy.pid)
        assert (has["Eff"], has["Inh"], has["Amb"], has["Bnd"]) == (0, 0, 0, NET_ADMIN)
        (small,) = children(proxy.pid)
        assert capabilities(small)["Eff"] == NET_ADMIN
        # One that takes its place may do the same.
        os.kill(small, signal.SIGKILL)
        place.namespace.run("nft", "delete", "table", "ip", "zoneward")
        until(lambda: "10.96.0.10 . tcp . 53" in place.table(), proxy)
        (other,) = children(proxy.pid)
        assert other != small
        assert (capabilities(other)["Eff"], capabilities(proxy.pid)["Eff"]) == (NET_ADMIN, 0)
        assert "CAP_NET_ADMIN is not set aside" not in proxy.log.read_text()
    assert "10.96.0.10 . tcp . 53" in place.table()
