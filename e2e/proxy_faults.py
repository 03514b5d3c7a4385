"""Random schedules of what goes wrong on a node, and what has to hold throughout and afterwards.

A schedule is made from its seed alone. While it runs, a client opens connections to Services that nobody changes, and
others change all the time. What `run` returns is what did not hold, in words; nothing where all did.
"""

import json
import random
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from e2e.api_servers import ApiServer
from e2e.nodes import Namespace
from e2e.proxied import STEADY, Proxied, proxied
from e2e.proxies import READY, Opened
from e2e.proxy_churn import Churn, endpoints_of
from e2e.rules_there import TABLE, difference, rules_of, rules_there

LENGTH: Final = 5.0
"""Seconds in which faults begin."""
CONVERGED: Final = 10.0
"""Seconds after the last fault within which the kernel has to be as it should be."""
AUDIT: Final = 10.0
_FLAGS: Final = ("--audit-period", f"{AUDIT:g}s")
_NOTICED: Final = 4.5
"""Seconds in which a table that others changed is noticed (2 s), read, and written again, on a busy machine."""
_AGAIN: Final = 0.5
"""Seconds after which a process that ended by itself is started again."""
_STEP: Final = 0.04
_CLEAN: Final = 0.5
_MOST_TOLD: Final = 12

_PROCESSES: Final = ("main killed", "nft killed", "both killed", "nft hangs", "main stopped", "server killed")
_BY_HAND: Final = (
    "table deleted",
    "table emptied",
    "table put to sleep",
    "element deleted",
    "element replaced",
    "rule deleted",
    "rule added",
    "chain emptied",
    "chain added",
)
_UNNOTICED: Final = ("element deleted", "element replaced", "rule deleted", "rule added", "chain emptied")
"""What only the audit may find: in chains that the kernel does not enter first, or where numbers of elements are the
same, or not told, as by kernels before 6.16."""


@dataclass(frozen=True, slots=True)
class Fault:
    """``at`` seconds after the beginning; ``lasts`` where it does; ``chance`` is for what it has to choose."""

    at: float
    kind: str
    lasts: float
    chance: int


def schedule(seed: int) -> tuple[Fault, ...]:
    """Every other seed has a change by hand among its faults."""
    chance = random.Random(seed)
    kinds = chance.choices(_PROCESSES, k=chance.randint(2, 5))
    times = sorted(chance.uniform(0.2, LENGTH) for _ in kinds)
    found = [
        Fault(round(at, 2), kind, round(chance.uniform(0.0, 1.5), 2), chance.getrandbits(32))
        for at, kind in zip(times, kinds, strict=True)
    ]
    if seed % 2:
        kind = chance.choice(_BY_HAND)
        found.append(Fault(round(chance.uniform(0.2, LENGTH), 2), kind, 0.0, chance.getrandbits(32)))
    return tuple(sorted(found, key=lambda fault: fault.at))


@dataclass(slots=True)
class _Run:
    site: Proxied
    chance: random.Random
    wrong: list[str] = field(default_factory=list)
    agenda: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    outages: list[tuple[float, float]] = field(default_factory=list)
    """From when until when nobody could mend the kernel's rules."""
    down: float | None = None
    """Since when the main process is away, or not done with its start."""
    hanging: tuple[float, int] | None = None
    """Since when the other one hangs, and its id."""
    ready: int = 0
    """How often the proxy had said that it is ready when it was started last."""
    start_at: float | None = None
    is_server_up: bool = True
    by_hand: list[tuple[float, Fault]] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    # --- faults -------------------------------------------------------------------------------------------------------

    def begin(self, fault: Fault) -> None:
        now = time.monotonic()
        self.told.append(f"{fault.at:.2f} {fault.kind} {fault.lasts:.2f}")
        if fault.kind in _BY_HAND:
            if self._by_hand(fault):
                self.by_hand.append((now, fault))
            return
        proxy = self.site.proxy
        match fault.kind:
            case "server killed":
                if self.is_server_up:
                    self.site.server.kill()
                    self.is_server_up = False
                    self.agenda.append((now + fault.lasts, self._server_back))
            case "nft killed":
                proxy.kill_nft()
                self.outages.append((now, now + 1.0))
            case "nft hangs":
                if (nft := proxy.nft) is not None and self.down is None:
                    proxy.stop_nft()
                    self.hanging = now, nft
            case "main stopped":
                if proxy.runs:
                    proxy.signal(signal.SIGSTOP)
                    self.agenda.append((now + fault.lasts, lambda: proxy.signal(signal.SIGCONT)))
                    self.outages.append((now, now + fault.lasts + 0.5))
            case "main killed" | "both killed":
                if proxy.runs:
                    proxy.kill() if fault.kind == "both killed" else proxy.kill_main()
                    self.down = now if self.down is None else self.down
                    self.start_at = now + fault.lasts

    def _by_hand(self, fault: Fault) -> bool:
        """Whether anything was changed."""
        chance, node = random.Random(fault.chance), self.site.node
        family = chance.choice(["ip", "ip6"])
        command = _command(fault.kind, family, rules_there_raw(node, family), chance)
        if command is None:
            return False
        self.told[-1] += f": {command}"
        try:
            node.run("nft", "-f", "-", text=command)
        except subprocess.CalledProcessError:
            # It was changed meanwhile.
            return False
        return True

    def _server_back(self) -> None:
        self.site.server.start()
        self.is_server_up = True

    # --- time goes by -------------------------------------------------------------------------------------------------

    def look_after(self) -> None:
        """As a kubelet does: what has ended is started again. And what was away is noted."""
        proxy, now = self.site.proxy, time.monotonic()
        for each in [each for each in self.agenda if each[0] <= now]:
            self.agenda.remove(each)
            each[1]()
        if self.hanging is not None and proxy.nft != self.hanging[1]:
            self.outages.append((self.hanging[0], now + 1.0))
            self.hanging = None
        if not proxy.runs:
            self.down = now if self.down is None else self.down
            if self.start_at is None:
                self.start_at = now + _AGAIN
            elif self.start_at <= now:
                proxy.end_rest()
                self.ready, self.start_at = len(proxy.told(READY)), None
                proxy.start(wait=False)
        elif self.down is not None and len(proxy.told(READY)) > self.ready:
            self.outages.append((self.down, now))
            self.down = None

    def end_of_faults(self) -> None:
        """All that is away comes back, but for what hangs: that one the proxy has to find out."""
        while self.agenda:
            self.agenda.sort(key=lambda each: each[0])
            _, action = self.agenda.pop(0)
            action()
        if not self.site.proxy.runs:
            self.start_at = time.monotonic()
        self.look_after()

    # --- what has to hold ---------------------------------------------------------------------------------------------

    def excused(self) -> list[tuple[float, float]]:
        """When connections may fail: from a change by hand until it has to be mended."""
        found = []
        for begun, fault in self.by_hand:
            noticed = _NOTICED + (AUDIT if fault.kind in _UNNOTICED else 0.0)
            until = begun + noticed
            for since, end in sorted(self.outages):
                if since < until:
                    until = max(until, end + noticed)
            found.append((begun, until))
        return found

    def check_traffic(self, opened: list[Opened], begun: float, converged: float) -> None:
        excused, failed = self.excused(), []
        flows: set[tuple[tuple[str, int], int]] = set()
        for each in sorted(opened, key=lambda each: each.begun):
            if each.failed is None:
                continue
            # A packet for which there were no rules makes a flow that the kernel goes by for two minutes: to a client
            # that uses the same port again nothing has changed.
            flow = each.target, each.source
            if flow in flows or any(since - 0.1 <= each.begun <= min(until, converged) for since, until in excused):
                flows.add(flow)
            else:
                failed.append(each)
        if failed:
            shown = [f"{each.begun - begun:.2f} {each.target[0]} {each.failed}" for each in failed]
            shown.append(f"{converged - begun:.2f} all is as it should be")
            self.wrong.append(f"{len(failed)} of {len(opened)} connections failed: {shown[-_MOST_TOLD:]}")
        known = {address for _, addresses in STEADY.values() for address in addresses}
        strange = {each.answered for each in opened if each.answered is not None} - known
        if strange and not self.by_hand:
            self.wrong.append(f"answered by {sorted(strange)}, who are of other Services")

    def converge(self) -> None:
        """Until the kernel has what a fresh load of it would have."""
        limit = time.monotonic() + CONVERGED
        for begun, fault in self.by_hand:
            if fault.kind in _UNNOTICED:
                limit = max(limit, begun + AUDIT + _NOTICED)
        self.look_after()
        wanted = rules_of(self.site.proxy.print_rules())
        # A look at the least: what it takes to know what is wanted is not the proxy's time.
        limit = max(limit, time.monotonic() + _NOTICED)
        while True:
            self.look_after()
            differs = difference(rules_there(self.site.node), wanted)
            if self.down is not None:
                differs.append("the proxy has not come back")
            if not differs:
                return
            if time.monotonic() > limit:
                break
            time.sleep(0.1)
        self.wrong.append(f"not as it should be after {CONVERGED:g} s: {differs[:_MOST_TOLD]}")

    def check_services(self) -> None:
        """Each Service is answered by endpoints of its own; at once by nobody, where it has none."""
        for name, (service, addresses) in endpoints_of(self.site.server.api).items():
            if name == "kubernetes" or service["spec"].get("internalTrafficPolicy") == "Local":
                continue
            for port in service["spec"]["ports"]:
                answered = self._answered(service["spec"]["clusterIP"], port["port"])
                if answered not in (addresses or {""}):
                    self.wrong.append(f"{name}:{port['port']} is answered by {answered!r}, not of {sorted(addresses)}")

    def _answered(self, address: str, port: int) -> str:
        """Who does; empty where nobody is to, else why nobody did."""
        why = ""
        # By another port the next time, which no flow of before has.
        for _ in range(3 if self.by_hand else 1):
            try:
                return self.site.client.ask(address, port).address
            except ConnectionRefusedError:
                why = ""
            except OSError as error:
                why = repr(error)
        return why


def run(seed: int, folder: Path, *, server: ApiServer | None = None) -> list[str]:
    """What did not hold; the last line tells the schedule. ``server``: instead of a sandbox of its own."""
    with proxied(folder, *_FLAGS, server=server) as site:
        site.proxy.start()
        going = _Run(site, random.Random(seed))
        churn = Churn(site.server.api, going.chance)
        with site.opening() as opened:
            begun = time.monotonic()
            faults = list(schedule(seed))
            while faults or time.monotonic() < begun + LENGTH:
                while faults and begun + faults[0].at <= time.monotonic():
                    going.begin(faults.pop(0))
                going.look_after()
                if going.is_server_up:
                    with suppress(OSError):
                        churn.step()
                time.sleep(_STEP)
            going.end_of_faults()
            going.converge()
            converged = time.monotonic()
            time.sleep(_CLEAN)
        going.check_traffic(opened.all(), begun, converged)
        if not going.wrong:
            going.check_services()
        site.server.api.close()
        if not going.wrong:
            return []
        tail = site.proxy.log.read_text().splitlines()[-_MOST_TOLD:]
        return [*going.wrong, f"seed {seed}: {'; '.join(going.told)}", *tail]


# --- by hand ----------------------------------------------------------------------------------------------------------


def rules_there_raw(namespace: Namespace, family: str) -> list[dict[str, dict[str, object]]]:
    """The table as nft lists it; empty where there is none."""
    with suppress(subprocess.CalledProcessError):
        listed: list[dict[str, dict[str, object]]] = json.loads(
            namespace.run("nft", "--json", "--handle", "list", "table", family, TABLE)
        )["nftables"]
        return listed
    return []


def _command(kind: str, family: str, listed: list[dict[str, dict[str, object]]], chance: random.Random) -> str | None:
    """What somebody types; None where there is nothing to type it about."""
    if not listed:
        return None
    table = f"{family} {TABLE}"
    chains = [each["chain"]["name"] for each in listed if "chain" in each]
    rules = [each["rule"] for each in listed if "rule" in each]
    full = [each["map"] for each in listed if each.get("map", {}).get("elem")]
    match kind:
        case "table deleted":
            return f"delete table {table}\n"
        case "table emptied":
            return f"flush table {table}\n"
        case "table put to sleep":
            return f"add table {table} {{ flags dormant; }}\n"
        case "chain added":
            return f"add chain {table} somebody\nadd rule {table} somebody counter\n"
        case "chain emptied":
            return f"flush chain {table} {chance.choice(chains)}\n" if chains else None
        case "rule deleted" if rules:
            rule = chance.choice(rules)
            return f"delete rule {table} {rule['chain']} handle {rule['handle']}\n"
        case "rule added" if chains:
            # What it takes to hear of the cluster goes on, or nobody could mend it.
            return f"insert rule {table} {chance.choice(chains)} tcp dport {{ 80, 8080 }} drop\n"
        case "element deleted" | "element replaced" if full:
            some = [each for each in full if str(each["name"]).endswith("endpoints")] or full
            map_ = chance.choice(some)
            elements = map_["elem"]
            assert isinstance(elements, list)
            key, value = chance.choice(elements)
            words = " . ".join(map(str, key["concat"]))
            command = f"delete element {table} {map_['name']} {{ {words} }}\n"
            if kind == "element replaced":
                if not isinstance(value, dict) or "concat" not in value:
                    return None
                other = "10.1.99.99" if family == "ip" else "fd00:1::99:99"
                command += f"add element {table} {map_['name']} {{ {words} : {other} . 8080 }}\n"
            return command
    return None
