"""A program runs until a signal or the end of one of its parts, and then ends its tasks in order."""

import asyncio
import gc
import os
import signal
from contextlib import AsyncExitStack, suppress

import pytest
from tests.controller.lines import Lines
from tests.patience import PATIENCE

from zoneward.client.api_errors import Forbidden, Unreachable
from zoneward.client.auth.client_config import ClientConfig, ClusterInfo, UserInfo
from zoneward.daemon.listen_address import ListenAddress
from zoneward.daemon.program import Program, collect_seldom, run_program
from zoneward.daemon.status_server import StatusPages, failed_checks
from zoneward.kube.input_error import InputError

ACCESS = ClientConfig(cluster=ClusterInfo(server="http://127.0.0.1:1"), user=UserInfo())


async def forever() -> None:
    await asyncio.Event().wait()


async def test_it_waits_until_an_event_is_set() -> None:
    program, stop, other = Program(ACCESS, log=Lines()), asyncio.Event(), asyncio.Event()
    program.start("work", forever(), is_live_check=True)
    waiting = asyncio.create_task(program.wait(stop, other))
    await asyncio.sleep(0)
    assert not waiting.done()
    other.set()
    await waiting
    assert not failed_checks(program.live)
    await program.end_tasks()
    assert failed_checks(program.live) == {"work": "work has ended"}


async def test_a_task_that_fails_ends_the_wait_with_what_it_raised() -> None:
    async def fail() -> None:
        raise ValueError("broken")

    program = Program(ACCESS, log=Lines())
    program.start("work", forever())
    program.start("more work", fail())
    with pytest.raises(ValueError, match="broken"):
        await program.wait(asyncio.Event())
    await program.end_tasks()


async def test_tasks_end_in_the_order_asked_for_each_before_the_next() -> None:
    ended: list[str] = []

    async def work(name: str) -> None:
        try:
            await forever()
        finally:
            await asyncio.sleep(0)
            ended.append(name)

    program = Program(ACCESS, log=Lines())
    for name in ("observer", "election", "controller"):
        program.start(name, work(name))
    await asyncio.sleep(0)
    await program.end_tasks("controller", "election", "of which there is none")
    assert ended == ["controller", "election", "observer"]


async def test_an_address_that_is_taken_or_is_none_is_named_with_its_option() -> None:
    log, pages = Lines(), StatusPages()
    program = Program(ACCESS, log=log)
    async with AsyncExitStack() as stack:
        free = ListenAddress("127.0.0.1", 0)
        await program.serve_status(stack, pages, listen=free, debug_for_all=False, mode="take-over")
        (line,) = (fields for event, fields in log.lines if event == "status server listens")
        assert line["mode"] == "take-over"
        taken = ListenAddress("127.0.0.1", int(str(line["port"])))
        with pytest.raises(InputError, match=rf"--listen: {taken}: expected an address that is free"):
            await program.serve_status(stack, pages, listen=taken, debug_for_all=False)
        no_host = ListenAddress("a..b", 80)
        with pytest.raises(
            InputError, match=r"--listen: a\.\.b:80: expected an address that is free, got: .*label empty"
        ):
            await program.serve_status(stack, pages, listen=no_host, debug_for_all=False)


@pytest.mark.parametrize(
    ("error", "lines"),
    [
        (None, []),
        (Unreachable("refused"), ["the proxy ends: the server refuses it"]),
        (ValueError("broken"), ["the proxy ends: a part of it failed"]),
    ],
)
def test_the_exit_status_says_how_it_ended_and_bad_input_is_left_to_the_command_line(
    error: Exception | None, lines: list[str]
) -> None:
    log, raised = Lines(), error

    async def run(stop: asyncio.Event) -> None:
        if raised is not None:
            raise raised
        os.kill(os.getpid(), signal.SIGTERM)
        await stop.wait()

    assert run_program(run, name="proxy", log=log, access=ACCESS) == (error is not None)
    assert log.events == lines
    raised = InputError("--node", "expected the name of a Node")
    with pytest.raises(InputError):
        run_program(run, name="proxy", log=log, access=ACCESS)


@pytest.mark.parametrize("name", ["controller", "proxy", "meter"])
def test_a_program_that_may_not_watch_ends_with_the_rule_to_add(name: str) -> None:
    message = 'services is forbidden: User "me" cannot watch resource "services" in API group "" at the cluster scope'
    log = Lines()

    async def run(_stop: asyncio.Event) -> None:
        raise Forbidden(403, "Forbidden", message, method="GET", path="/api/v1/services")

    assert run_program(run, name=name, log=log, access=ACCESS) == 1
    ((_, fields),) = log.lines
    assert 'rule grants it: {apiGroups: [""], resources: ["services"], verbs: ["watch"]}' in str(fields["error"])


async def test_collections_begin_once_it_has_started_and_never_walk_over_what_it_has_then() -> None:
    started, slept, frozen = asyncio.Event(), list[float](), list[int]()
    generations = list[int]()
    # What the tests loaded may be frozen (tests/conftest.py).
    gc.unfreeze()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        # Counting walks over every object of the test run.
        if len(slept) % 100 == 1:
            frozen.append(gc.get_freeze_count())
        if len(slept) == 721:
            await asyncio.Event().wait()

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            generations.append(info["generation"])

    collecting = asyncio.create_task(collect_seldom(_is_set(started), sleep=sleep))
    await asyncio.sleep(0)
    assert (gc.isenabled(), gc.get_freeze_count()) == (False, 0)
    gc.callbacks.append(note)
    try:
        started.set()
        async with asyncio.timeout(PATIENCE):
            while len(slept) < 721:
                await asyncio.sleep(0)
    finally:
        gc.callbacks.remove(note)
        collecting.cancel()
        with suppress(asyncio.CancelledError):
            await collecting
    assert set(slept) == {10.0}
    assert min(frozen) > 1000
    # One over everything at the start, and one an hour; all others over what is new.
    assert [index for index, generation in enumerate(generations) if generation == 2] == [0, 360, 720]
    assert set(generations) == {1, 2}
    assert (gc.isenabled(), gc.get_freeze_count()) == (True, 0)


async def _is_set(event: asyncio.Event) -> None:
    await event.wait()
