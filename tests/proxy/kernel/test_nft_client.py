"""The process that programs the kernel may die, hang or be missing; the client reports it, and starts it again."""

import asyncio
import errno
import os
import signal
import sys
from pathlib import Path

import pytest

from zoneward.netlink.messages import request
from zoneward.netlink.nftables import generation_request
from zoneward.proxy.kernel.nft_client import (
    MAX_REQUEST_LIMIT,
    KernelOutcomeUnknown,
    KernelRefused,
    NftablesUnavailable,
    NftClient,
    describe_refusal,
)
from zoneward.proxy.kernel.nft_process import UNUSABLE

PROCESS = """
import struct, sys, time
def say(kind, text):
    sys.stdout.buffer.write(struct.pack("<Q", len(text) + 1) + kind + text)
    sys.stdout.buffer.flush()
while True:
    head = sys.stdin.buffer.read(8)
    if len(head) < 8:
        sys.exit(0)
    body = sys.stdin.buffer.read(struct.unpack("<Q", head)[0])
    if body[:1] == b"a":
        say(b"\\2", struct.pack("=IHHIIi", 20, 2, 0, 1, 0, ASKED))
        say(b"\\0", b"")
    elif b"hang" in body:
        time.sleep(1000)
    elif b"die" in body:
        sys.stderr.write("no more\\n")
        sys.exit(7)
    elif b"refuse" in body:
        say(b"\\1", b"Error: File exists\\nadd element ip t s { 1, 2 }\\n                        ^\\n")
    else:
        say(b"\\0", b"")
"""


def command(*, script: str = PROCESS, asked: int = 0) -> tuple[str, ...]:
    return sys.executable, "-I", "-S", "-c", script.replace("ASKED", str(asked))


async def test_a_refusal_names_the_element_and_the_process_keeps_running() -> None:
    async with NftClient(command=command()) as process:
        pid = process.pid
        with pytest.raises(KernelRefused, match=r"File exists: 2 \(add element ip t s\)"):
            await process.run_commands("refuse this")
        await process.run_commands("take this")
        assert (process.transactions_done, process.pid) == (1, pid)


async def test_a_process_that_dies_is_started_again_and_reported() -> None:
    troubles: list[str] = []
    async with NftClient(command=command(), on_trouble=troubles.append) as process:
        for how in ("by itself", "killed"):
            before = process.pid
            assert before is not None
            if how == "killed":
                asyncio.get_running_loop().call_later(0.05, os.kill, before, signal.SIGKILL)
            with pytest.raises(KernelOutcomeUnknown):
                await process.run_commands("hang" if how == "killed" else "die")
            await process.run_commands("take this")
            assert process.pid != before
        assert process.transactions_done == 2
        assert any("no more" in line for line in troubles)
        assert any("restarting" in line for line in troubles)


async def test_a_process_that_hangs_is_replaced_with_twice_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    troubles: list[str] = []
    loop = asyncio.get_running_loop()
    call_later = loop.call_later
    # A process that hangs gets a short limit; any other one gets enough time on a busy machine, too.
    pace = 1.0

    async def sleep(_: float) -> None:
        pass

    monkeypatch.setattr(loop, "call_later", lambda delay, *work: call_later(delay * pace, *work))
    async with NftClient(
        command=command(), limit=10.0, on_trouble=troubles.append, sleep=sleep, clock=lambda: 0.0
    ) as process:
        pace = 0.01
        for _ in range(3):
            with pytest.raises(KernelOutcomeUnknown):
                await process.run_commands("hang")
        pace = 1.0
        await process.run_commands("take this")
        pace = 0.01
        with pytest.raises(KernelOutcomeUnknown):
            await process.run_commands("hang")
        limits = [line for line in troubles if "within" in line]
        assert [limit.split("within ")[1].split(" s")[0] for limit in limits] == ["10", "20", "40", "10"]

    assert MAX_REQUEST_LIMIT == 60


async def test_a_process_may_take_longer_to_start_than_to_answer() -> None:
    async with NftClient(command=command(script=f"import time; time.sleep(0.5)\n{PROCESS}"), limit=0.2) as process:
        assert process.pid is not None


async def test_a_cancelled_request_does_not_take_the_answer_of_the_next() -> None:
    async with NftClient(command=command()) as process:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await process.run_commands("hang")
        await process.run_commands("take this")
        with pytest.raises(KernelRefused):
            await process.run_commands("refuse this")


@pytest.mark.parametrize(
    ("asked", "script", "why"),
    [
        pytest.param(-errno.EPERM, PROCESS, "CAP_NET_ADMIN", id="no permission"),
        pytest.param(-errno.EPROTONOSUPPORT, PROCESS, "no nf_tables", id="no nf_tables"),
        pytest.param(
            0,
            f"import sys; sys.stderr.write('libnftables.so.1: no\\n'); sys.exit({UNUSABLE})",
            "libnftables",
            id="none",
        ),
        pytest.param(0, "raise SystemExit(1)", "ended", id="it ends"),
    ],
)
async def test_an_unusable_kernel_is_reported_in_one_line(asked: int, script: str, why: str) -> None:
    with pytest.raises(NftablesUnavailable, match=why) as unusable:
        async with NftClient(command=command(script=script, asked=asked)):
            raise AssertionError("it is usable")
    assert "\n" not in str(unusable.value)


async def test_a_command_that_cannot_be_run_is_unusable(tmp_path: Path) -> None:
    with pytest.raises(NftablesUnavailable, match="cannot be started"):
        await NftClient(command=(str(tmp_path / "nothing"),)).__aenter__()


async def test_a_netlink_error_has_its_number() -> None:
    async with NftClient(command=command()) as process:
        assert await process.query(generation_request())
    process = NftClient(command=command(asked=-errno.ENOENT))
    with pytest.raises(KernelRefused) as error:
        await process.query(request(1, 2, 2))
    assert error.value.number == errno.ENOENT
    await process.__aexit__()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("", "nft says nothing"),
        ("Error: Could not process rule: File exists\nadd a b { c }\n          ^\n", "File exists: c (add a b { c)"),
        ("/dev/stdin:1:2-3: Error: syntax error\n", "syntax error"),
        ("internal:0:0-0: Error: conflicting protocols\n\n", "conflicting protocols"),
    ],
)
def test_a_refusal_is_one_line(words: str, line: str) -> None:
    assert describe_refusal(words) == line
