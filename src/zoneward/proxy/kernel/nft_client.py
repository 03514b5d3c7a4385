"""Sends transactions to the kernel through a separate process, which is restarted when it dies or hangs."""

import asyncio
import errno
import os
import sys
import time
from asyncio.subprocess import PIPE, create_subprocess_exec
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol, Self

from zoneward.client.backoff import Backoff
from zoneward.netlink.messages import error_number
from zoneward.netlink.nftables import generation_request
from zoneward.proxy.kernel.nft_process import ASK, DONE, LENGTH, MORE, RUN, SEND, UNUSABLE

_COMMAND: Final = (sys.executable, "-m", "zoneward.proxy.kernel.nft_process")
REQUEST_LIMIT: Final = 4.0
MAX_REQUEST_LIMIT: Final = 60.0
"""Seconds for one request, doubled after each that was not answered in time. 500 Services take a tenth of one. A
long answer may take longer, as long as parts of it arrive."""
_BACKOFF: Final = Backoff(initial=0.1, cap=5.0)
_LAST_MOMENT: Final = 1.0
_MOST_UNREAD: Final = 1 << 30
"""Bytes of output that are buffered: an answer has hundreds of megabytes at most."""


class KernelRefused(Exception):  # noqa: N818 -- it is an answer
    """The kernel rejected a request and changed nothing. The text names the part at fault (`describe_refusal`).

    ``number`` is the `errno` of a netlink request, else 0.
    """

    def __init__(self, words: str, code: int = 0) -> None:
        super().__init__(words)
        self.number = code


class KernelOutcomeUnknown(Exception):  # noqa: N818 -- it is an answer
    """The process died or hung: only the kernel's tables show whether the transaction was applied."""


class NftablesUnavailable(Exception):  # noqa: N818 -- it is a fact
    """Rules cannot be programmed on this machine: no library, no permission, or no nf_tables. The text is one line."""


class KernelClient(Protocol):
    """Sends transactions and requests to the kernel. Each method raises KernelRefused or KernelOutcomeUnknown."""

    @property
    def transactions_done(self) -> int:
        """The number of transactions that the kernel accepted from this client."""
        ...

    async def run_commands(self, commands: str) -> None:
        """Run nft commands as one transaction, all or nothing."""
        ...

    async def send_batch(self, batch: bytes) -> None:
        """Send one transaction of netlink messages (`zoneward.proxy.kernel.table_writer.encode_transaction`)."""
        ...

    async def query(self, request: bytes) -> bytes:
        """Return everything that the kernel answers to one netlink request (`zoneward.netlink.messages`)."""
        ...


class NftClient:
    """A KernelClient whose process runs inside the block; the kernel's rules stay after it.

    Entering raises NftablesUnavailable if rules cannot be programmed, and changes nothing. Requests are sent one at a
    time. ``on_trouble`` is called each time the process has to be restarted.
    """

    def __init__(
        self,
        *,
        command: Sequence[str] = _COMMAND,
        limit: float = REQUEST_LIMIT,
        on_trouble: Callable[[str], None] = lambda _trouble: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._command, self._first_limit, self._on_trouble, self._sleep = tuple(command), limit, on_trouble, sleep
        self._longer_limits: dict[bytes, tuple[int, float]] = {}
        """By kind: a number of bytes, and the current limit in seconds for requests of at least that size."""
        self._process: _Process | None = None
        self._turn = asyncio.Lock()
        self._failures = 0
        self.transactions_done = 0

    async def __aenter__(self) -> Self:
        try:
            # The process starts first, which takes long on a busy machine.
            await self.query(generation_request(), limit=MAX_REQUEST_LIMIT)
        except BaseException as error:
            await self.__aexit__()
            if isinstance(error, KernelRefused | KernelOutcomeUnknown):
                raise NftablesUnavailable(_why_unusable(error)) from error
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        process, self._process = self._process, None
        if process is not None:
            await process.end(within=_LAST_MOMENT)

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def run_commands(self, commands: str) -> None:
        await self._request(RUN, commands.encode())
        self.transactions_done += 1

    async def send_batch(self, batch: bytes) -> None:
        code = error_number(await self._request(SEND, batch))
        if code:
            raise KernelRefused(os.strerror(code), code)
        self.transactions_done += 1

    async def query(self, request: bytes, *, limit: float | None = None) -> bytes:
        """``limit``: as `_request` has it."""
        answer = await self._request(ASK, request, limit=limit)
        code = error_number(answer)
        if code:
            raise KernelRefused(os.strerror(code), code)
        return answer

    async def _request(self, kind: bytes, body: bytes, *, limit: float | None = None) -> bytes:
        """``limit`` in seconds, instead of the current one for such requests."""
        async with self._turn:
            process = await self._running_process()
            if limit is None:
                long_body, longer_limit = self._longer_limits.get(kind, (0, self._first_limit))
                limit = longer_limit if len(body) >= long_body else self._first_limit
            started_at = self._clock()
            try:
                done, output = await process.answer_to(kind, body, limit=limit)
            except TimeoutError as error:
                self._longer_limits[kind] = len(body), min(2 * limit, MAX_REQUEST_LIMIT)
                why = f"the process that programs the kernel did not answer within {limit:g} s"
                raise await self._end_lost(process, why) from error
            except ConnectionError as error:
                raise await self._end_lost(process, "the process that programs the kernel ended") from error
            except asyncio.CancelledError:
                # The answer of this request would be read as the next one's.
                await process.end(within=0)
                raise
            self._failures = 0
            if limit > self._first_limit and self._clock() - started_at < self._first_limit:
                # The request was not the reason for the timeout.
                self._longer_limits.pop(kind, None)
        if done:
            return output
        words = output.decode(errors="replace").strip()
        if kind != RUN and words.isdecimal():
            raise KernelRefused(os.strerror(int(words)), int(words))
        raise KernelRefused(describe_refusal(words))

    async def _running_process(self) -> "_Process":
        process = self._process
        if process is not None and not process.is_over:
            return process
        if self._failures > 1:
            # Back off from a process that dies at once.
            await self._sleep(_BACKOFF.delay(self._failures))
        if process is not None:
            self._on_trouble("restarting the nftables process")
        try:
            self._process = process = await _Process.started(self._command)
        except OSError as error:
            self._failures += 1
            raise KernelOutcomeUnknown(f"the process that programs the kernel cannot be started: {error}") from error
        return process

    async def _end_lost(self, process: "_Process", why: str) -> Exception:
        self._failures += 1
        code, output = await process.end(within=0)
        output = output.strip().splitlines()[-1] if output.strip() else ""
        if code == UNUSABLE:
            return NftablesUnavailable(output)
        why += f": {output}" if output else ""
        self._on_trouble(why)
        return KernelOutcomeUnknown(why)


def _why_unusable(error: KernelRefused | KernelOutcomeUnknown) -> str:
    if isinstance(error, KernelRefused):
        if error.number in (errno.EPERM, errno.EACCES):
            return "programming the kernel's rules needs the capability CAP_NET_ADMIN"
        return f"the kernel has no nf_tables: {error}"
    return str(error)


class _Process:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._process = process
        self._stdin, self._stdout, self._stderr = process.stdin, process.stdout, process.stderr

    @classmethod
    async def started(cls, command: Sequence[str]) -> "_Process":
        return cls(await create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=PIPE, limit=_MOST_UNREAD))

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_over(self) -> bool:
        return self._process.returncode is not None or self._stdout.at_eof()

    async def answer_to(self, kind: bytes, body: bytes, *, limit: float) -> tuple[bool, bytes]:
        """Whether a request was done, and its answer.

        Raises TimeoutError if a part of the answer takes more than ``limit`` seconds, or ConnectionError if the process
        ended.
        """
        self._stdin.write(LENGTH.pack(len(body) + 1) + kind + body)
        parts: list[bytes] = []
        while True:
            loop, stdout = asyncio.get_running_loop(), self._stdout
            timeout = loop.call_later(limit, stdout.set_exception, TimeoutError())
            try:
                (length,) = LENGTH.unpack(await stdout.readexactly(LENGTH.size))
                part = await stdout.readexactly(length)
            except asyncio.IncompleteReadError as error:
                raise ConnectionResetError from error
            finally:
                timeout.cancel()
            parts.append(part[1:])
            if part[:1] != MORE:
                return part[:1] == DONE, b"".join(parts)

    async def end(self, *, within: float) -> tuple[int, str]:
        """End the process, and kill it after ``within`` seconds. Returns its exit status and standard error output."""
        self._stdin.close()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), within)
        with suppress(ProcessLookupError):
            self._process.kill()
        return await self._process.wait(), (await self._stderr.read()).decode(errors="replace")


_COMMAND_WORDS: Final = 5
_LONGEST: Final = 400


def describe_refusal(words: str) -> str:
    """nft's reason in one line, with the part of the command at fault, which nft underlines.

    ``File exists: 10.0.0.1 . tcp . 80 (add element ip zoneward services)``.
    """
    lines = words.strip().splitlines()
    if not lines:
        return "nft says nothing"
    reason = lines[0].partition("Error: ")[2] or lines[0]
    reason = reason.removeprefix("Could not process rule: ")
    if len(lines) > 2 and lines[2].strip() and set(lines[2].strip()) <= {"^", "~", " "}:
        start, end = lines[2].find("^"), lines[2].rfind("^") + 1
        part = lines[1][start:end].strip() if start >= 0 else ""
        command = " ".join(lines[1].split()[:_COMMAND_WORDS])
        reason += f": {part} ({command})" if part else f" ({command})"
    return reason[:_LONGEST]
