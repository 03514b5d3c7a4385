"""A proxy that cannot run reports it in one line and changes nothing; cleaning up removes only Zoneward's tables."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from e2e.proxied import NODE, Proxied, proxied
from e2e.proxies import FLAGS, ZonewardProxy
from e2e.rules_there import difference, rules_of, rules_there
from tests.patience import PATIENCE

NO_RIGHT: Final = ("setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin", "--")
_HIDE: Final = (
    'for each in $(ldconfig -p | sed -n "s/.*libnftables.so.1 .*=> //p"); do mount --bind /dev/null $each; done'
)
NO_LIBRARY: Final = ("unshare", "--mount", "--", "sh", "-c", f'{_HIDE}; exec "$@"', "sh")
# Requests are sent to a missing subsystem of netfilter, so that the error is that of a kernel without nf_tables.
NO_NFTABLES: Final = """
import socket
class Socket(socket.socket):
    def send(self, data, *flags):
        if self.family == socket.AF_NETLINK and data[5] == 10:
            data = data[:5] + bytes([0xEE]) + data[6:]
        return super().send(data, *flags)
"""
OTHERS: Final = "table ip others {\n\tchain somebody {\n\t}\n}\n"
"""Rules of another program."""
Ended = tuple[int, str, str]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    with proxied(tmp_path_factory.mktemp("start")) as site:
        yield site


@pytest.fixture
def site(shared: Proxied) -> Iterator[Proxied]:
    """Without Zoneward's rules, and without a running proxy."""
    shared.node.run("nft", "-f", "-", text=f"flush ruleset\n{OTHERS}")
    yield shared
    shared.proxy.kill()


def ended(site: Proxied, *flags: str, wrapper: Sequence[str] = (), modules: Path | None = None) -> Ended:
    """Run the command on the node: status, output and errors. ``modules`` comes first in Python's path."""
    command = [*site.node.enter, *wrapper, sys.executable, "-m", "zoneward", "proxy", *flags]
    environment = {**os.environ, **({} if modules is None else {"PYTHONPATH": str(modules)})}
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment)
    return done.returncode, done.stdout, done.stderr


def started(site: Proxied, *flags: str, **options: Any) -> Ended:
    return ended(site, "--node", NODE, "--kubeconfig", str(site.server.kubeconfig), *FLAGS, *flags, **options)


def check_refused(site: Proxied, result: Ended, *words: str) -> None:
    """One line, exit status 2, and unchanged rules."""
    # The log may report listening before; the error is the only line that is not of the log.
    status, out, err = result
    lines = [line for line in err.splitlines() if not line.startswith("{")]
    assert (status, out, len(lines)) == (2, "", 1), result
    assert lines[0].startswith("zoneward: ")
    assert [word for word in words if word not in lines[0]] == []
    assert site.node.run("nft", "list", "ruleset") == OTHERS


@pytest.mark.parametrize(("wrapper", "word"), [(NO_RIGHT, "CAP_NET_ADMIN"), (NO_LIBRARY, "libnftables.so.1")])
def test_without_the_capability_or_the_library(site: Proxied, wrapper: Sequence[str], word: str) -> None:
    check_refused(site, started(site, wrapper=wrapper), word)


def test_without_nf_tables_in_the_kernel(site: Proxied, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(f"{NO_NFTABLES}\nsocket.socket = Socket\n")
    check_refused(site, started(site, modules=tmp_path), "nf_tables")


def test_unknown_node(site: Proxied) -> None:
    result = ended(site, "--node", "nobody", "--kubeconfig", str(site.server.kubeconfig))
    check_refused(site, result, "--node", "'nobody'")


def test_waits_for_an_unreachable_api_server_until_sigterm(site: Proxied, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(site.server.kubeconfig.read_text().replace(f":{site.server.port}", ":9"))
    with ZonewardProxy(site.node, kubeconfig, tmp_path) as proxy:
        proxy.start(wait=False)
        proxy.wait_until(lambda: "failed to reach the API server" in proxy.log.read_text(), what="what it waits for")
        assert proxy.terminate() == 0
    assert site.node.run("nft", "list", "ruleset") == OTHERS


@pytest.mark.parametrize(("option", "port"), [("--listen", 10272), ("--healthz-listen", 10256)])
def test_port_in_use(site: Proxied, option: str, port: int) -> None:
    with site.node.call(socket.create_server, ("0.0.0.0", port)):
        check_refused(site, started(site), option, str(port))


def test_printing_needs_no_capability(site: Proxied) -> None:
    """The printed rules equal those that a running proxy programs."""
    printed = started(site, "--print", wrapper=NO_RIGHT)
    assert (printed[0], printed[2]) == (0, "")
    assert site.node.run("nft", "list", "ruleset") == OTHERS
    site.proxy.start()
    assert difference(rules_there(site.node), rules_of(printed[1])) == []


def test_dry_run_prints_the_changes_and_makes_none(site: Proxied) -> None:
    status, commands, err = started(site, "--dry-run")
    assert (status, err) == (0, "")
    assert site.node.run("nft", "list", "ruleset") == OTHERS
    # After these commands the rules are complete, and a dry run prints nothing.
    site.node.run("nft", "-f", "-", text=commands)
    assert difference(rules_there(site.node), rules_of(started(site, "--print")[1])) == []
    assert started(site, "--dry-run") == (0, "", "")
    site.node.run("nft", "delete", "element", "ip", "zoneward", "cluster-ips", "{ 10.96.0.10 }")
    assert started(site, "--dry-run") == (0, "add element ip zoneward cluster-ips { 10.96.0.10 }\n", "")


def test_cleanup_removes_only_zonewards_tables(site: Proxied) -> None:
    site.proxy.start()
    assert rules_there(site.node) != {}
    assert site.proxy.terminate() == 0
    first, again = (ended(site, "--cleanup") for _ in range(2))
    assert first == (0, "", "removed table ip zoneward, table ip6 zoneward\n")
    assert site.node.run("nft", "list", "ruleset") == OTHERS
    assert again == (0, "", "there were no tables of Zoneward\n")
    check_refused(site, ended(site, "--cleanup", wrapper=NO_RIGHT), "CAP_NET_ADMIN")
