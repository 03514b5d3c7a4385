"""No connection to a Service fails while the node's proxy stops, crashes and starts again."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from typing import Final

import pytest
from e2e.processes import Process, wait_until
from e2e.proxied import TARGETS, Proxied, proxied, sliced
from e2e.proxies import Opened, ZonewardProxy
from e2e.rules_there import difference, rules_of, rules_there
from tests.builders.objects import a_service
from tests.contract.api import Object

ROLLED: Final = {"rolled": ("10.96.0.20", "None"), "rolled-kept": ("10.96.0.21", "ClientIP")}
"""Services whose endpoints come and go: address and session affinity."""
ROLL: Final = 0.15
"""Seconds between two replacements."""
AFTERWARDS: Final = 2.5
"""Seconds of connections after a restart."""
ENDPOINTS: Final = 3
"""Of these Services at any time."""
OLD_SET: Final = "type ipv4_addr . ipv4_addr . inet_service . inet_proto; flags dynamic,timeout; timeout 1h; size 65536"
OLD_RULE: Final = "update @connections { ip daddr . ct original ip daddr . ct original proto-dst . meta l4proto }"
CHANGED: Final = "zoneward_proxy_changed_elements_total"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    with proxied(tmp_path_factory.mktemp("restart")) as site:
        for name, (address, affinity) in ROLLED.items():
            site.server.api.create(a_service(name, clusterIP=address, sessionAffinity=affinity))
            site.server.api.create(rolled(name, 0))
        site.proxy.start()
        yield site


def rolled(name: str, replaced: int) -> Object:
    """The slice after this number of replacements."""
    return sliced(f"{name}-1", service=name, addresses=[address(replaced + index) for index in range(ENDPOINTS)])


def address(index: int) -> str:
    return f"10.1.{index // 200 + 10}.{index % 200 + 1}"


def index_of(address: str) -> int:
    _, _, high, low = map(int, address.split("."))
    return (high - 10) * 200 + low - 1


@contextmanager
def rolling(site: Proxied) -> Iterator[list[str]]:
    """Keep replacing the oldest endpoint. Yields the addresses that the API server has removed."""
    gone: list[str] = []
    end = threading.Event()
    first = index_of(site.server.api.read(rolled("rolled", 0))["endpoints"][0]["addresses"][0])

    def roll() -> None:
        index = first
        while not end.wait(ROLL):
            for name in ROLLED:
                site.server.api.replace(rolled(name, index + 1))
            gone.append(address(index))
            index += 1
        site.server.api.close()

    thread = threading.Thread(target=roll)
    thread.start()
    try:
        yield gone
    finally:
        end.set()
        thread.join()


def returned(opened: Iterable[Opened]) -> Iterator[Opened]:
    """Connections to an endpoint that left its slice before one was added that an earlier connection had reached.

    So the proxy once had the later state. How long it may take is not the question: that depends on the machine.
    """
    for service, _ in ROLLED.values():
        answered = (one for one in opened if one.target == (service, 80) and one.answered is not None)
        newest = 0
        # Those of the same time may have begun in any order.
        for _, group in groupby(sorted(answered, key=_begun), key=_begun):
            indexes = {index_of(one.answered or ""): one for one in group}
            yield from (one for index, one in indexes.items() if index <= newest - ENDPOINTS)
            newest = max(newest, *indexes)


def _begun(opened: Opened) -> float:
    return opened.begun


def upgraded(proxy: ZonewardProxy) -> None:
    assert proxy.terminate() == 0
    proxy.start()


def both_killed(proxy: ZonewardProxy) -> None:
    proxy.kill()
    proxy.start()


def other_layout(proxy: ZonewardProxy) -> None:
    """Restart with an option that changes the whole table."""
    flag = "--masquerade-all"
    proxy.flags = tuple(other for other in proxy.flags if other != flag) + (() if flag in proxy.flags else (flag,))
    upgraded(proxy)


@pytest.mark.parametrize("happens", [upgraded, both_killed, other_layout])
def test_no_connection_fails_while_endpoints_roll(site: Proxied, happens: Callable[[ZonewardProxy], None]) -> None:
    """Nor does one go back to an endpoint that was removed.

    `e2e.proxy_faults` kills each of the two processes by itself.
    """
    with site.opening([*TARGETS, *((address, 80) for address, _ in ROLLED.values())]) as opened, rolling(site) as gone:
        time.sleep(0.5)
        happens(site.proxy)
        time.sleep(AFTERWARDS)
    assert len(opened.all()) > 100
    assert opened.failures() == []
    assert len(gone) > 4
    assert list(returned(opened.all())) == []
    site.proxy.wait_until(lambda: not differences(site), what="the last change")


def test_start_writes_nothing_if_nothing_changed(site: Proxied) -> None:
    """Neither an element nor a rule: a monitor of the kernel sees no event."""
    site.proxy.kill()
    with monitored(site) as events:
        site.proxy.start()
        assert site.proxy.metric(CHANGED) == 0
        assert events() == []


def test_start_writes_only_what_changed_meanwhile(site: Proxied) -> None:
    """A replaced endpoint is one deleted and one added element in each set that lists it."""
    slice_ = site.server.api.read(sliced("plain-1", service="plain", addresses=()))
    site.proxy.kill()
    slice_["endpoints"][1]["addresses"] = ["10.1.0.99"]
    with monitored(site) as events:
        site.server.api.replace(slice_)
        site.proxy.start()
        words = sorted(" ".join(line.split()[:5]) for line in events())
    # In the map of endpoints, and in the set of local endpoints that may connect to themselves.
    assert words == [
        f"{verb} element ip zoneward {name}" for verb in ("add", "delete") for name in ("endpoints", "hairpin")
    ]
    assert differences(site) == []


def differences(site: Proxied) -> list[str]:
    """Between the kernel's rules and those of a fresh load."""
    return difference(rules_there(site.node), rules_of(site.proxy.print_rules()))


@contextmanager
def monitored(site: Proxied) -> Iterator[Callable[[], list[str]]]:
    """Yields a function that returns the events of Zoneward's tables from ``nft monitor`` so far."""
    log = site.folder / f"monitor-{time.monotonic_ns()}"
    with Process([*site.node.enter, "stdbuf", "-oL", "nft", "monitor"], log=log):

        def has_seen(word: str) -> bool:
            site.node.run("nft", f"add table ip {word}; delete table ip {word}")
            return word in log.read_text()

        def events() -> list[str]:
            wait_until(lambda: has_seen("until-here"), "the last event")
            return [line for line in log.read_text().splitlines() if line.split()[3:4] == ["zoneward"]]

        wait_until(lambda: has_seen("from-here"), "a monitor")
        yield events


def test_no_connection_fails_while_the_table_of_an_older_version_is_replaced(site: Proxied) -> None:
    site.proxy.start()
    assert site.proxy.terminate() == 0
    lines = site.node.run("nft", "list", "table", "ip", "zoneward").splitlines()
    (layout,) = (line.split()[1] for line in lines if "chain layout-" in line)
    # As in versions that counted in the kernel.
    for command in (
        f"delete chain ip zoneward {layout}",
        "add chain ip zoneward layout-0123456789abcdef",
        f"add set ip zoneward connections {{ {OLD_SET}; counter; }}",
        "add chain ip zoneward count-connections",
        f"add rule ip zoneward count-connections meta l4proto tcp {OLD_RULE} return",
        "add chain ip zoneward nat-input { type nat hook input priority 100; }",
        "add rule ip zoneward nat-input ct status dnat jump count-connections",
        "insert rule ip zoneward nat-postrouting ct status dnat jump count-connections",
    ):
        site.node.run("nft", command)
    with site.opening() as opened:
        site.proxy.start()
    assert opened.all()
    assert not opened.failures()
    rules = site.node.run("nft", "list", "table", "ip", "zoneward")
    assert layout in rules
    assert not any(name in rules for name in ("connections", "nat-input"))
