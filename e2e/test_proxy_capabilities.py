"""The proxy runs with the privileges of its DaemonSet, and only its child process may change the kernel's rules."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from e2e.proxied import STEADY, Proxied, proxied
from e2e.proxies import ZonewardProxy
from tests.deploy.manifests import PROXY_MODES, container, the

STEADY_IP = f"{STEADY['plain'][0]} . tcp . 80"
SETPRIV = ("setpriv", "--no-new-privs", "--inh-caps", "-all", "--bounding-set")
# As in a container: other mounts (/tmp, /dev) stay writable.
READ_ONLY = ("unshare", "--mount", "sh", "-c", 'mount -o remount,bind,ro / && exec "$@"', "sh")
NET_ADMIN = 1 << 12


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Proxied]:
    with proxied(tmp_path) as site:
        yield site


def capabilities(pid: int) -> dict[str, int]:
    """By capability set: Inh, Prm, Eff, Bnd, Amb."""
    lines = re.findall(r"^Cap(\w+):\s*(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return {name: int(value, 16) for name, value in lines}


def wait_until_dropped(proxy: ZonewardProxy) -> None:
    # It has the capability for a moment whenever it opens a socket to read connection tracking.
    proxy.wait_until(lambda: not capabilities(proxy.process.pid)["Eff"], what="a proxy without effective capabilities")


def given_capabilities() -> str:
    """The capabilities that the manifests add, as setpriv expects them."""
    (given,) = {tuple(container(mode)["securityContext"]["capabilities"]["add"]) for mode in PROXY_MODES}
    return ",".join(f"+{capability.lower()}" for capability in given)


def test_only_the_child_process_has_the_capability_of_the_manifests(
    site: Proxied,
) -> None:
    for mode in PROXY_MODES:
        security = container(mode)["securityContext"]
        assert (security["allowPrivilegeEscalation"], security["readOnlyRootFilesystem"]) == (False, True)
        assert the("DaemonSet", mode)["spec"]["template"]["spec"]["securityContext"]["runAsUser"] == os.getuid()

    def table() -> str:
        with suppress(subprocess.CalledProcessError):
            return site.node.run("nft", "list", "table", "ip", "zoneward")
        return ""

    proxy = site.proxy
    proxy.wrapper = (*READ_ONLY, *SETPRIV, f"-all,{given_capabilities()}")
    proxy.start()
    assert STEADY_IP in table()
    wait_until_dropped(proxy)
    has = capabilities(proxy.process.pid)
    assert (has["Inh"], has["Amb"], has["Bnd"]) == (0, 0, NET_ADMIN)
    child = proxy.nft
    assert child is not None
    assert capabilities(child)["Eff"] == NET_ADMIN
    # Its replacement has the same privileges.
    proxy.kill_nft()
    site.node.run("nft", "delete", "table", "ip", "zoneward")
    proxy.wait_until(lambda: STEADY_IP in table() and proxy.nft not in (None, child), what="another one")
    other = proxy.nft
    assert other is not None
    assert capabilities(other)["Eff"] == NET_ADMIN
    wait_until_dropped(proxy)
    assert "failed to drop CAP_NET_ADMIN" not in proxy.log.read_text()
