"""Random schedules of faults on a node, and checks during and after them.

A schedule depends only on its seed. While it runs, a client opens connections to Services that nobody changes, and
other Services keep changing. `run` returns a line for each problem.
"""

import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from e2e.api_servers import ApiServer
from e2e.proxied import STEADY, Proxied, proxied
from e2e.proxies import READY, Opened
from e2e.proxy_churn import Churn
from e2e.rules_there import difference, rules_of, rules_there
from tests.patience import PATIENCE

LENGTH: Final = 5.0
"""Seconds in which faults begin."""
_AGAIN: Final = 0.5
"""Seconds after which a process that ended by itself is started again."""
_STEP: Final = 0.04
_CLEAN: Final = 0.5
_MOST_TOLD: Final = 12

_KINDS: Final = ("main killed", "nft killed", "both killed", "nft hangs", "main stopped", "server killed")


class Fault(NamedTuple):
    """``at`` seconds after the beginning; ``lasts`` where it does."""

    at: float
    kind: str
    lasts: float


def schedule(seed: int) -> list[Fault]:
    chance = random.Random(seed)
    kinds = chance.choices(_KINDS, k=chance.randint(2, 5))
    return sorted(Fault(chance.uniform(0.2, LENGTH), kind, chance.uniform(0.0, 1.5)) for kind in kinds)


@dataclass(slots=True)
class _Run:
    site: Proxied
    wrong: list[str] = field(default_factory=list)
    agenda: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    ready: int = 0
    """The number of times that the proxy had reported readiness when it was last started."""
    start_at: float | None = None
    is_server_up: bool = True
    happened: list[str] = field(default_factory=list)

    def begin(self, fault: Fault) -> None:
        now, proxy = time.monotonic(), self.site.proxy
        self.happened.append(f"{fault.at:.2f} {fault.kind} {fault.lasts:.2f}")
        match fault.kind:
            case "server killed":
                if self.is_server_up:
                    self.site.server.kill()
                    self.is_server_up = False
                    self.agenda.append((now + fault.lasts, self._server_back))
            case "nft killed":
                proxy.kill_nft()
            case "nft hangs":
                proxy.stop_nft()
            case "main stopped":
                proxy.signal(signal.SIGSTOP)
                self.agenda.append((now + fault.lasts, lambda: proxy.signal(signal.SIGCONT)))
            case "main killed" | "both killed":
                if proxy.runs:
                    proxy.kill() if fault.kind == "both killed" else proxy.kill_main()
                    self.start_at = now + fault.lasts

    def _server_back(self) -> None:
        self.site.server.start()
        self.is_server_up = True

    def look_after(self) -> None:
        """Restart a process that has ended, as a kubelet does."""
        proxy, now = self.site.proxy, time.monotonic()
        for entry in [entry for entry in self.agenda if entry[0] <= now]:
            self.agenda.remove(entry)
            entry[1]()
        if proxy.runs:
            return
        if self.start_at is None:
            self.start_at = now + _AGAIN
        elif self.start_at <= now:
            proxy.end_rest()
            self.ready, self.start_at = len(proxy.logged(READY)), None
            proxy.start(wait=False)

    def end_of_faults(self) -> None:
        """Restart everything, except a process that hangs: the proxy has to notice that."""
        for _, action in sorted(self.agenda, key=lambda entry: entry[0]):
            action()
        self.agenda.clear()
        if not self.site.proxy.runs:
            self.start_at = time.monotonic()

    def converge(self) -> None:
        """Wait until the rules equal those of a fresh load."""
        self.look_after()
        wanted = rules_of(self.site.proxy.print_rules())
        limit = time.monotonic() + PATIENCE
        while True:
            self.look_after()
            differs = difference(rules_there(self.site.node), wanted)
            if len(self.site.proxy.logged(READY)) <= self.ready:
                differs.append("the proxy has not come back")
            if not differs:
                return
            if time.monotonic() > limit:
                self.wrong.append(f"not converged after {PATIENCE:g} s: {differs[:_MOST_TOLD]}")
                return
            time.sleep(0.1)

    def check_traffic(self, opened: list[Opened], start: float, converged: float) -> None:
        failed = [
            f"{connection.begun - start:.2f} {connection.target[0]} {connection.failed}"
            for connection in opened
            if connection.failed is not None
        ]
        if failed:
            failed.append(f"{converged - start:.2f} converged")
            self.wrong.append(f"{len(failed) - 1} of {len(opened)} connections failed: {failed[-_MOST_TOLD:]}")
        known = {address for _, addresses in STEADY.values() for address in addresses}
        strange = {connection.answered for connection in opened if connection.answered is not None} - known
        if strange:
            self.wrong.append(f"answered by {sorted(strange)}, who are of other Services")


def run(seed: int, folder: Path, *, server: ApiServer | None = None) -> list[str]:
    """A line for each problem; the last lines show the schedule. ``server``: instead of a new sandbox."""
    with proxied(folder, server=server) as site:
        site.proxy.start()
        going = _Run(site)
        churn = Churn(site.server.api, random.Random(seed))
        with site.opening() as opened:
            start = time.monotonic()
            faults = schedule(seed)
            while faults or time.monotonic() < start + LENGTH:
                while faults and start + faults[0].at <= time.monotonic():
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
        going.check_traffic(opened.all(), start, converged)
        site.server.api.close()
        if not going.wrong:
            return []
        tail = site.proxy.log.read_text().splitlines()[-_MOST_TOLD:]
        return [*going.wrong, f"seed {seed}: {'; '.join(going.happened)}", *tail]
