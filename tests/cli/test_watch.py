"""``zoneward plan --watch`` on an API server: its outputs, and how it ends."""

import asyncio
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.cli.live_cluster import Cluster
from tests.cli.running import Commands
from tests.client.a_server import Fault
from tests.patience import PATIENCE

from zoneward.cli import plan_watch
from zoneward.cli.known_demand import NO_PARTS, KnownDemand
from zoneward.cli.options import Options
from zoneward.client.auth.kubeconfig import load_client_config
from zoneward.client.backoff import Backoff
from zoneward.client.informers import WatchHealth
from zoneward.client.reflector import ReflectorSettings
from zoneward.routing.configuration import Configuration

pytestmark = pytest.mark.slow

COMMAND = (sys.executable, "-m", "zoneward", "plan", "--watch")


class Watch:
    """The command, and the lines that it has printed so far."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process, self.lines = process, list[str]()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(iter(self.process.stdout.readline, ""))

    def until(self, holds: Callable[[], object]) -> None:
        end = time.monotonic() + PATIENCE
        while not holds():
            assert self.process.poll() is None, self.err()
            assert time.monotonic() < end, self.lines[-3:]
            time.sleep(0.01)

    def events(self) -> list[Any]:
        return [json.loads(line) for line in list(self.lines)]

    def until_synced(self) -> None:
        self.until(lambda: any(line.startswith('{"type":"SYNCED"') for line in list(self.lines)))

    def until_more(self, than: int, count: int = 1) -> list[Any]:
        """The events after the first ones, once there are ``count``; then a moment passes in which more could come."""
        self.until(lambda: len(self.lines) >= than + count)
        time.sleep(0.25)
        return self.events()[than:]

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        status = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return status

    def err(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read()


@contextmanager
def watching_with(*arguments: str) -> Iterator[Watch]:
    pipe = subprocess.PIPE
    with subprocess.Popen([*COMMAND, *arguments], stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield Watch(process)
        finally:
            process.kill()


def test_json_has_all_decisions_and_then_changes(zoneward: Commands, cluster: Cluster) -> None:
    planned = zoneward.json("plan", "-A")["decisions"]
    with watching_with("-A", "-o", "json") as watch:
        watch.until_synced()
        first = watch.events()
        assert [event["type"] for event in first] == ["ADDED"] * len(planned) + ["SYNCED"]
        assert [event["decision"] for event in first[:-1]] == planned
        assert (first[-1]["decisions"], first[-1]["services"]) == (len(planned), 16)
        # Fields that no decision reads are not reported, so the next line is about the Pod.
        cluster.put(
            "services", "search", "shop", lambda object_: object_["metadata"]["annotations"].update(other="note")
        )
        cluster.put("nodes", "worker-a1", "", lambda object_: object_["metadata"]["labels"].update(other="label"))
        cluster.make_ready(cluster.pods("cart")[0], False)
        (event,) = watch.until_more(len(first))
        assert (event["type"], event["decision"]["service"], event["decision"]["endpoints"]) == ("CHANGED", "cart", 19)
        assert sorted(event) == ["decision", "time", "type"]
        cluster.do(lambda server: server.delete("services", "cart", "shop"))
        (gone,) = watch.until_more(len(first) + 1)
        assert (gone["type"], gone["decision"]) == ("REMOVED", event["decision"])
        assert watch.interrupt() == 130
        assert watch.err() == ""


@pytest.mark.usefixtures("cluster")
def test_demand_figures_are_read_once(tmp_path: Path) -> None:
    file = tmp_path / "d.yaml"
    file.write_text("shop/search: {eu-central-1a: 0.75, eu-central-1b: 0.25}\n")
    with watching_with("-n", "shop", "-o", "json", "--demand", str(file)) as watch:
        watch.until_synced()
        file.unlink()
        decisions = [event["decision"] for event in watch.events() if event["type"] == "ADDED"]
        (search,) = [decision for decision in decisions if decision["service"] == "search"]
        assert search["zones"]["eu-central-1a"]["demand"] == pytest.approx(0.75)
        assert watch.interrupt() == 130
        assert watch.err() == f"zoneward: demand of 1 Service from {file}; by CPU for the others\n"


@pytest.mark.usefixtures("cluster")
def test_watch_ends_when_its_reader_is_gone() -> None:
    with subprocess.Popen([*COMMAND, "-o", "json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert any(json.loads(line)["type"] == "SYNCED" for line in process.stdout)
            process.stdout.close()
            assert process.wait(PATIENCE) == 0
            assert process.stderr is not None
            assert process.stderr.read() == b""
        finally:
            process.kill()


@pytest.mark.usefixtures("cluster")
def test_ctrl_c_ends_the_watch_while_its_reader_is_slow() -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen([*COMMAND, "-A", "-o", "json"], stdout=pipe, stderr=pipe, pipesize=4096) as process:
        try:
            assert process.stdout is not None
            assert select.select([process.stdout], [], [], PATIENCE)[0]
            time.sleep(0.2)
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 130
        finally:
            process.kill()


def test_text_has_the_table_and_then_changes(zoneward: Commands, cluster: Cluster) -> None:
    table = zoneward("plan").out
    with watching_with() as watch:
        watch.until(lambda: len(watch.lines) >= table.count("\n"))
        assert "".join(watch.lines) == table
        cluster.make_ready(cluster.pods("search")[0], False)
        watch.until(lambda: len(watch.lines) > table.count("\n"))
        line = watch.lines[-1]
        assert " changed shop/search: endpoints 10 > 9, in zone 71% > " in line
        assert watch.interrupt() == 130
        assert watch.err() == ""


def test_missing_permission_to_watch_is_shown_with_its_rule(zoneward: Commands, cluster: Cluster) -> None:
    cluster.server.may_watch = False
    assert 'verbs: ["watch"]' in zoneward.refused("plan", "-w")


def test_lost_connection_is_reported_and_recovers(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Permissions that are revoked later do not end it: they may be granted again."""
    quick = partial(ReflectorSettings, backoff=Backoff(initial=0.02, cap=0.05, jitter=0.5))
    monkeypatch.setattr(plan_watch, "_POLL", 0.01)
    monkeypatch.setattr(plan_watch, "WatchHealth", partial(WatchHealth, patience=0.05))
    monkeypatch.setattr(plan_watch, "ReflectorSettings", quick)
    access = load_client_config(environment=os.environ)

    async def run() -> tuple[str, str]:
        out, err = "", ""

        async def until(*words: str) -> None:
            nonlocal out, err
            end = time.monotonic() + PATIENCE
            while not all(word in out + err for word in words):
                assert time.monotonic() < end, err
                await asyncio.sleep(0.01)
                more = capfd.readouterr()
                out, err = out + more.out, err + more.err

        known_demand = KnownDemand(Configuration(), NO_PARTS, ())
        watch = plan_watch.watch_cluster(access, ("shop",), known_demand, options=Options(), output="json")
        task = asyncio.create_task(watch)
        await until("SYNCED")
        cluster.do(lambda server: server.refusals.update(pods=403))
        cluster.do(lambda server: server.plan(Fault.DROP, plural="pods"))
        await until("may not watch pods", "retrying")
        cluster.make_ready(cluster.pods("cart")[0], False)
        cluster.do(lambda server: server.refusals.clear())
        await until("the API server responds again", "CHANGED")
        task.cancel()
        await asyncio.wait([task])
        return out, err

    out, err = asyncio.run(run())
    assert all(json.loads(line)["type"] in ("ADDED", "SYNCED", "CHANGED") for line in out.splitlines())
    *errors, recovered = err.splitlines()
    assert all(line.startswith("zoneward: ") and line.endswith("; retrying") for line in errors)
    assert recovered == "zoneward: the API server responds again"


# --- on a terminal ----------------------------------------------------------------------------------------------------


def _nobody() -> bytes:
    raise OSError("nobody is at the other end")


class Terminal:
    """The command on a pseudo terminal, and all bytes that came from it."""

    def __init__(self, *arguments: str, command: Sequence[str] = COMMAND, lines: int, columns: int) -> None:
        self.process, self._file = pty.fork()
        if self.process == 0:
            os.environ.update(TERM="xterm-256color", LC_ALL="C.UTF-8")
            os.execv(sys.executable, [*command, *arguments])
        self.seen = b""
        self.resize(lines, columns)

    def resize(self, lines: int, columns: int) -> None:
        fcntl.ioctl(self._file, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def type(self, data: bytes) -> None:
        os.write(self._file, data)

    def picture(self) -> list[str]:
        """The lines drawn last."""
        return self.pictures()[-1].split("\r\n")

    def pictures(self) -> list[str]:
        """All that was drawn; the last one may not be whole."""
        return self.seen.decode(errors="replace").replace("\x1b[2K", "").split("\x1b[H")

    def until(self, holds: Callable[[], object]) -> None:
        end = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < end, self.picture()
            if select.select([self._file], [], [], 0.02)[0]:
                self.seen += os.read(self._file, 1 << 16)

    def end(self) -> int:
        """The exit status, once everything was read; negative for a signal."""
        limit = time.monotonic() + PATIENCE
        try:
            while select.select([self._file], [], [], max(0.0, limit - time.monotonic()))[0]:
                self.seen += os.read(self._file, 1 << 16) or _nobody()
        except OSError:
            # So Linux says that nobody is at the other end.
            pass
        else:
            os.kill(self.process, signal.SIGKILL)
        os.close(self._file)
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])


def test_terminal_shows_the_table_and_is_restored(cluster: Cluster) -> None:
    """The mark of what changed stays: a busy machine may not read the picture while it would be there."""
    code = "from zoneward.cli import main, plan_watch; plan_watch._MARKED = 600.0; main.main()"
    command = (sys.executable, "-c", code, "plan", "--watch")
    terminal = Terminal("-A", command=command, lines=40, columns=100)
    # The first picture has the size that the terminal had at first.
    terminal.until(lambda: b"\x1b[J" in terminal.seen and "More: " in terminal.seen.decode(errors="replace"))
    first = terminal.picture()
    assert "16 Services" in first[0]
    assert any("shop/search" in line and "71%" in line for line in first)
    assert "\x1b[7" not in "".join(first)
    cluster.make_ready(cluster.pods("search")[0], False)
    terminal.until(lambda: "\x1b[7" in "".join(terminal.picture()) and terminal.seen.endswith(b"\x1b[J"))
    assert [("shop/search" in line) for line in terminal.picture() if "\x1b[7" in line] == [True]
    terminal.resize(12, 100)
    terminal.until(lambda: "and 11 more Services" in "".join(terminal.picture()) and terminal.seen.endswith(b"\x1b[J"))
    assert len(terminal.picture()) <= 12
    assert "shop/search" in "".join(terminal.picture()), "what changed last comes first"
    terminal.type(b"\x03")
    assert terminal.end() == 130
    _, _, after = terminal.seen.rpartition(b"\x1b[?25h\x1b[?1049l")
    assert "shop/search" in after.decode()
    assert b"Traceback" not in terminal.seen


@pytest.mark.usefixtures("cluster")
def test_signal_restores_the_terminal() -> None:
    terminal = Terminal(lines=40, columns=100)
    terminal.until(lambda: b"\x1b[J" in terminal.seen)
    os.kill(terminal.process, signal.SIGTERM)
    assert terminal.end() == -signal.SIGTERM
    assert terminal.seen.endswith(b"\x1b[?25h\x1b[?1049l")
