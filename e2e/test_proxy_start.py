"""A proxy that cannot run says so in one line and changes nothing; one that is told to goes away without a trace."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from e2e.processes import PATIENCE
from e2e.proxied import NODE, Proxied, proxied
from e2e.proxies import FLAGS, ZonewardProxy
from e2e.rules_there import difference, rules_of, rules_there

NO_RIGHT: Final = ("setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin", "--")
_HIDE: Final = (
    'for each in $(ldconfig -p | sed -n "s/.*libnftables.so.1 .*=> //p"); do mount --bind /dev/null $each; done'
)
NO_LIBRARY: Final = ("unshare", "--mount", "--", "sh", "-c", f'{_HIDE}; exec "$@"', "sh")
# Requests go to a part of netfilter that is not there: what a kernel without nf_tables answers is real.
NO_NFTABLES: Final = """
import socket
class Socket(socket.socket):
    def send(self, data, *flags):
        if self.family == socket.AF_NETLINK and data[5] == 10:
            data = data[:5] + bytes([0xEE]) + data[6:]
        return super().send(data, *flags)
"""
OTHERS: Final = "table ip others {\n\tchain somebody {\n\t}\n}\n"
"""What somebody else has there."""
Ended = tuple[int, str, str]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    with proxied(tmp_path_factory.mktemp("start")) as site:
        yield site


@pytest.fixture
def site(shared: Proxied) -> Iterator[Proxied]:
    """With no rules of ours in the kernel, and no proxy."""
    shared.node.run("nft", "-f", "-", text=f"flush ruleset\n{OTHERS}")
    yield shared
    shared.proxy.kill()


def ended(site: Proxied, *flags: str, wrapper: Sequence[str] = (), modules: Path | None = None) -> Ended:
    """The command on the node: status, output and errors. ``modules``: a folder that Python looks into first."""
    command = [*site.node.enter, *wrapper, sys.executable, "-m", "zoneward", "proxy", *flags]
    environment = {**os.environ, **({} if modules is None else {"PYTHONPATH": str(modules)})}
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment)
    return done.returncode, done.stdout, done.stderr


def started(site: Proxied, *flags: str, **options: Any) -> Ended:
    return ended(site, "--node", NODE, "--kubeconfig", str(site.server.kubeconfig), *FLAGS, *flags, **options)


def check_refused(site: Proxied, found: Ended, *words: str) -> None:
    """One line, exit status 2, and a kernel as it was."""
    # The log may say before that it listens: what is wrong is the one line that is none of the log.
    status, out, err = found
    lines = [line for line in err.splitlines() if not line.startswith("{")]
    assert (status, out, len(lines)) == (2, "", 1), found
    assert lines[0].startswith("zoneward: ")
    assert [word for word in words if word not in lines[0]] == []
    assert site.node.run("nft", "list", "ruleset") == OTHERS


@pytest.mark.parametrize(("wrapper", "word"), [(NO_RIGHT, "CAP_NET_ADMIN"), (NO_LIBRARY, "libnftables.so.1")])
def test_without_the_right_to_program_the_kernel_or_the_library(
    site: Proxied, wrapper: Sequence[str], word: str
) -> None:
    check_refused(site, started(site, wrapper=wrapper), word)


def test_without_nf_tables_in_the_kernel(site: Proxied, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(f"{NO_NFTABLES}\nsocket.socket = Socket\n")
    check_refused(site, started(site, modules=tmp_path), "nf_tables")


def test_a_node_that_the_cluster_does_not_have(site: Proxied) -> None:
    found = ended(site, "--node", "nobody", "--kubeconfig", str(site.server.kubeconfig))
    check_refused(site, found, "--node", "'nobody'")


def test_an_api_server_that_is_away_is_waited_for_and_sigterm_ends_the_wait(site: Proxied, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(site.server.kubeconfig.read_text().replace(f":{site.server.port}", ":9"))
    with ZonewardProxy(site.node, kubeconfig, tmp_path) as proxy:
        proxy.start(wait=False)
        proxy.wait_until(lambda: "failed to reach the API server" in proxy.log.read_text(), what="what it waits for")
        assert proxy.terminate() == 0
    assert site.node.run("nft", "list", "ruleset") == OTHERS


@pytest.mark.parametrize(("option", "port"), [("--listen", 10272), ("--healthz-listen", 10256)])
def test_a_port_that_somebody_else_has(site: Proxied, option: str, port: int) -> None:
    with site.node.call(socket.create_server, ("0.0.0.0", port)):
        check_refused(site, started(site), option, str(port))


def test_printing_needs_no_right(site: Proxied) -> None:
    """What is printed is what a proxy that runs then puts into the kernel."""
    found = started(site, "--print", wrapper=NO_RIGHT)
    assert (found[0], found[2]) == (0, "")
    assert site.node.run("nft", "list", "ruleset") == OTHERS
    site.proxy.start()
    assert difference(rules_there(site.node), rules_of(found[1])) == []


def test_a_dry_run_says_what_would_change_and_changes_nothing(site: Proxied) -> None:
    status, commands, err = started(site, "--dry-run")
    assert (status, err) == (0, "")
    assert site.node.run("nft", "list", "ruleset") == OTHERS
    # Somebody who does what it says has what a proxy would have, and it says no more.
    site.node.run("nft", "-f", "-", text=commands)
    assert difference(rules_there(site.node), rules_of(started(site, "--print")[1])) == []
    assert started(site, "--dry-run") == (0, "", "")
    site.node.run("nft", "delete", "element", "ip", "zoneward", "cluster-ips", "{ 10.96.0.10 }")
    assert started(site, "--dry-run") == (0, "add element ip zoneward cluster-ips { 10.96.0.10 }\n", "")


def test_cleaning_up_removes_what_is_ours_and_nothing_else(site: Proxied) -> None:
    site.proxy.start()
    assert rules_there(site.node) != {}
    assert site.proxy.terminate() == 0
    first, again = (ended(site, "--cleanup") for _ in range(2))
    assert first == (0, "", "removed table ip zoneward, table ip6 zoneward\n")
    assert site.node.run("nft", "list", "ruleset") == OTHERS
    assert again == (0, "", "there were no tables of Zoneward\n")
    check_refused(site, ended(site, "--cleanup", wrapper=NO_RIGHT), "CAP_NET_ADMIN")
