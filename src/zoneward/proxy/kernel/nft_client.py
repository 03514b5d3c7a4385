"""Sends transactions to the kernel through a separate process, which is restarted when it dies or hangs."""

import asyncio
import errno
import os
import sys
import time
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
_MOST_SAID: Final = 4096


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
            await self.query(generation_request())
        except (KernelRefused, KernelOutcomeUnknown) as error:
            await self.__aexit__()
            raise NftablesUnavailable(_why_unusable(error)) from error
        except BaseException:
            await self.__aexit__()
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

    async def query(self, request: bytes) -> bytes:
        answer = await self._request(ASK, request)
        code = error_number(answer)
        if code:
            raise KernelRefused(os.strerror(code), code)
        return answer

    async def _request(self, kind: bytes, body: bytes) -> bytes:
        async with self._turn:
            process = await self._running_process()
            limit, begun = self._limit(kind, body), self._clock()
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
            if limit > self._first_limit and self._clock() - begun < self._first_limit:
                # The request was not the reason for the timeout.
                del self._longer_limits[kind]
        if done:
            return output
        words = output.decode(errors="replace").strip()
        if kind != RUN and words.isdecimal():
            raise KernelRefused(os.strerror(int(words)), int(words))
        raise KernelRefused(describe_refusal(words))

    def _limit(self, kind: bytes, body: bytes) -> float:
        length, limit = self._longer_limits.get(kind, (0, self._first_limit))
        return limit if len(body) >= length else self._first_limit

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


class _Process(asyncio.SubprocessProtocol):
    """One process, and the pending answer."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._parts: list[bytes] = []
        self._stderr = bytearray()
        self._answer: asyncio.Future[tuple[bool, bytes]] | None = None
        self._ended = asyncio.get_running_loop().create_future()
        self._is_closed = False
        self._limit = 0.0
        self._timeout: asyncio.TimerHandle
        self._transport: asyncio.SubprocessTransport
        self._stdin: asyncio.WriteTransport

    @classmethod
    async def started(cls, command: Sequence[str]) -> "_Process":
        return (await asyncio.get_running_loop().subprocess_exec(cls, *command))[1]

    @property
    def pid(self) -> int:
        return self._transport.get_pid()

    @property
    def is_over(self) -> bool:
        return self._is_closed or self._ended.done()

    async def answer_to(self, kind: bytes, body: bytes, *, limit: float) -> tuple[bool, bytes]:
        """Whether a request was done, and its answer.

        Raises TimeoutError if there is no output for ``limit`` seconds, or ConnectionError if the process ended.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[tuple[bool, bytes]] = loop.create_future()
        self._answer, self._limit = answer, limit
        if self.is_over:
            raise ConnectionResetError
        self._stdin.write(LENGTH.pack(len(body) + 1) + kind + body)
        self._wait()
        try:
            return await answer
        finally:
            self._timeout.cancel()
            self._answer = None

    def _wait(self) -> None:
        """Start the timeout for the next output."""
        self._timeout = asyncio.get_running_loop().call_later(self._limit, self._fail, TimeoutError())

    def _fail(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)

    async def end(self, *, within: float) -> tuple[int | None, str]:
        """End the process, and kill it after ``within`` seconds. Returns its exit status and last standard error
        output."""
        if within:
            self._stdin.close()
            await asyncio.wait([self._ended], timeout=within)
        if not self._ended.done():
            with suppress(ProcessLookupError):
                self._transport.kill()
        await self._ended
        self._transport.close()
        return self._transport.get_returncode(), self._stderr.decode(errors="replace")

    # --- of asyncio ---------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._transport = transport
        sink = transport.get_pipe_transport(0)
        assert isinstance(sink, asyncio.WriteTransport)
        self._stdin = sink

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd != 1:
            self._stderr += data
            del self._stderr[:-_MOST_SAID]
            return
        output, head = self._buffer, LENGTH.size
        output += data
        while len(output) >= head:
            (length,) = LENGTH.unpack_from(output)
            if len(output) < head + length:
                return
            kind = bytes(output[head : head + 1])
            if kind == MORE and self._answer is not None:
                self._timeout.cancel()
                self._wait()
            self._parts.append(bytes(output[head + 1 : head + length]))
            del output[: head + length]
            if kind != MORE:
                answer, self._parts = b"".join(self._parts), []
                if self._answer is not None and not self._answer.done():
                    self._answer.set_result((kind == DONE, answer))

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 -- as asyncio calls it
        if fd != 2:
            self._is_closed = True
            self._fail(ConnectionResetError())

    def process_exited(self) -> None:
        self._is_closed = True
        self._fail(ConnectionResetError())

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 -- as asyncio calls it
        if not self._ended.done():
            self._ended.set_result(None)


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
