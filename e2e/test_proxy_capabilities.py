"""A node's proxy runs with what its DaemonSet gives it, and only its small process may change the kernel's rules."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from e2e.proxied import STEADY, Proxied, proxied
from tests.deploy.manifests import PROXY_MODES, container, the

STEADY_IP = f"{STEADY['plain'][0]} . tcp . 80"
SETPRIV = ("setpriv", "--no-new-privs", "--inh-caps", "-all", "--bounding-set")
# As a container has it: what is mounted elsewhere (/tmp, /dev) stays as it is.
READ_ONLY = ("unshare", "--mount", "sh", "-c", 'mount -o remount,bind,ro / && exec "$@"', "sh")
NET_ADMIN = 1 << 12


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Proxied]:
    with proxied(tmp_path) as found:
        yield found


def capabilities(pid: int) -> dict[str, int]:
    """By the names of the kernel's sets: Inh, Prm, Eff, Bnd, Amb."""
    found = re.findall(r"^Cap(\w+):\s*(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return {name: int(value, 16) for name, value in found}


def given_capabilities() -> str:
    """Those that the manifests add, as setpriv takes them."""
    (given,) = {tuple(container(mode)["securityContext"]["capabilities"]["add"]) for mode in PROXY_MODES}
    return ",".join(f"+{each.lower()}" for each in given)


def test_with_the_capabilities_of_the_manifests_and_no_file_to_write_only_the_small_process_has_any(
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
    has = capabilities(proxy.process.pid)
    assert (has["Eff"], has["Inh"], has["Amb"], has["Bnd"]) == (0, 0, 0, NET_ADMIN)
    small = proxy.nft
    assert small is not None
    assert capabilities(small)["Eff"] == NET_ADMIN
    # One that takes its place may do the same.
    proxy.kill_nft()
    site.node.run("nft", "delete", "table", "ip", "zoneward")
    proxy.wait_until(lambda: STEADY_IP in table() and proxy.nft not in (None, small), what="another one")
    other = proxy.nft
    assert other is not None
    assert (capabilities(other)["Eff"], capabilities(proxy.process.pid)["Eff"]) == (NET_ADMIN, 0)
    assert "failed to drop CAP_NET_ADMIN" not in proxy.log.read_text()
