"""Transactions to the kernel, by way of a process of their own that is restarted when it dies or hangs."""

import asyncio
import errno
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol, Self

from zoneward.client.backoff import Backoff
from zoneward.netlink.messages import error_text, status
from zoneward.proxy.kernel.kernel_reading import generation_request
from zoneward.proxy.kernel.nft_process import ASK, DONE, LENGTH, MORE, RUN, SEND, UNUSABLE
from zoneward.proxy.kernel.refusal import refusal

_COMMAND: Final = (sys.executable, "-m", "zoneward.proxy.kernel.nft_process")
LIMIT: Final = 4.0
LONGEST_LIMIT: Final = 60.0
"""Seconds for one request, doubled after each that was not answered in time. 500 Services take a tenth of one. What the
kernel tells of may take longer, as long as it goes on."""
_BACKOFF: Final = Backoff(initial=0.1, cap=5.0)
_LAST_MOMENT: Final = 1.0
_MOST_SAID: Final = 4096


class Refused(Exception):  # noqa: N818 -- it is an answer
    """The kernel did nothing of what was asked. The text has the part at fault (`zoneward.proxy.kernel.refusal`).

    ``number`` is the error's, for a netlink request (`errno`), else 0.
    """

    def __init__(self, words: str, number: int = 0) -> None:
        super().__init__(words)
        self.number = number


class Lost(Exception):  # noqa: N818 -- it is an answer
    """The process died or hung: whether the transaction was done only a look at the kernel tells."""


class Unusable(Exception):  # noqa: N818 -- it is a fact
    """Rules cannot be programmed here: no library, no right to, or a kernel that cannot. The text is one line."""


class Kernel(Protocol):
    """Whoever takes transactions."""

    @property
    def taken(self) -> int:
        """How many transactions it took from us."""
        ...

    async def run(self, commands: str) -> None:
        """One transaction, all or nothing. Raises Refused or Lost."""
        ...

    async def send(self, batch: bytes) -> None:
        """One transaction in the kernel's own words (`zoneward.proxy.kernel.element_batch`). Raises Refused or Lost."""
        ...

    async def ask(self, request: bytes) -> bytes:
        """All that the kernel answers to one netlink request (`zoneward.netlink.messages`). Raises Refused or Lost."""
        ...


class NftProcess:
    """A Kernel. Enter the block to start it, leave it to end it; the kernel's rules stay.

    Entering raises Unusable where rules cannot be programmed, and changes nothing. Requests are sent one at a time.
    ``on_trouble`` is told each time the process has to be started again.
    """

    def __init__(
        self,
        *,
        command: Sequence[str] = _COMMAND,
        limit: float = LIMIT,
        on_trouble: Callable[[str], None] = lambda _trouble: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._command, self._first_limit, self._on_trouble, self._sleep = tuple(command), limit, on_trouble, sleep
        self._longer: dict[bytes, tuple[int, float]] = {}
        """By kind, for requests of that many bytes or more: the seconds that one of them may take now."""
        self._process: _Process | None = None
        self._turn = asyncio.Lock()
        self._failures = 0
        self.taken = 0

    async def __aenter__(self) -> Self:
        try:
            await self.ask(generation_request())
        except (Refused, Lost) as error:
            await self.__aexit__()
            raise Unusable(_why_unusable(error)) from error
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

    async def run(self, commands: str) -> None:
        await self._asked(RUN, commands.encode())
        self.taken += 1

    async def send(self, batch: bytes) -> None:
        number = status(await self._asked(SEND, batch))
        if number:
            raise Refused(error_text(number), number)
        self.taken += 1

    async def ask(self, request: bytes) -> bytes:
        answer = await self._asked(ASK, request)
        number = status(answer)
        if number:
            raise Refused(error_text(number), number)
        return answer

    async def _asked(self, kind: bytes, body: bytes) -> bytes:
        async with self._turn:
            process = await self._started()
            limit, begun = self._limit(kind, body), self._clock()
            try:
                done, said = await process.answered(kind, body, limit=limit)
            except TimeoutError as error:
                self._longer[kind] = len(body), min(2 * limit, LONGEST_LIMIT)
                why = f"the process that programs the kernel did not answer within {limit:g} s"
                raise await self._lost(process, why) from error
            except ConnectionError as error:
                raise await self._lost(process, "the process that programs the kernel ended") from error
            except asyncio.CancelledError:
                # Its answer would be taken for the next one's.
                await process.end(within=0)
                raise
            self._failures = 0
            if limit > self._first_limit and self._clock() - begun < self._first_limit:
                # It was not the request that took so long.
                del self._longer[kind]
        if done:
            return said
        words = said.decode(errors="replace").strip()
        if kind != RUN and words.isdecimal():
            raise Refused(error_text(int(words)), int(words))
        raise Refused(refusal(words))

    def _limit(self, kind: bytes, body: bytes) -> float:
        length, limit = self._longer.get(kind, (0, self._first_limit))
        return limit if len(body) >= length else self._first_limit

    async def _started(self) -> "_Process":
        process = self._process
        if process is not None and not process.is_over:
            return process
        if self._failures > 1:
            # One that cannot live must not be started without end.
            await self._sleep(_BACKOFF.delay(self._failures))
        if process is not None:
            self._on_trouble("the process that programs the kernel is started again")
        try:
            self._process = process = await _Process.started(self._command)
        except OSError as error:
            self._failures += 1
            raise Lost(f"the process that programs the kernel cannot be started: {error}") from error
        return process

    async def _lost(self, process: "_Process", why: str) -> Exception:
        self._failures += 1
        code, said = await process.end(within=0)
        said = said.strip().splitlines()[-1] if said.strip() else ""
        if code == UNUSABLE:
            return Unusable(said)
        why += f": {said}" if said else ""
        self._on_trouble(why)
        return Lost(why)


def _why_unusable(error: Refused | Lost) -> str:
    if isinstance(error, Refused):
        if error.number in (errno.EPERM, errno.EACCES):
            return "programming the kernel's rules needs the capability CAP_NET_ADMIN"
        return f"the kernel has no nf_tables: {error}"
    return str(error)


class _Process(asyncio.SubprocessProtocol):
    """One process, and the answer that is waited for."""

    def __init__(self) -> None:
        self._said = bytearray()
        self._pieces: list[bytes] = []
        self._wrong = bytearray()
        self._answer: asyncio.Future[tuple[bool, bytes]] | None = None
        self._over = asyncio.get_running_loop().create_future()
        self._is_cut = False
        self._limit = 0.0
        self._late: asyncio.TimerHandle
        self._transport: asyncio.SubprocessTransport
        self._sink: asyncio.WriteTransport

    @classmethod
    async def started(cls, command: Sequence[str]) -> "_Process":
        return (await asyncio.get_running_loop().subprocess_exec(cls, *command))[1]

    @property
    def pid(self) -> int:
        return self._transport.get_pid()

    @property
    def is_over(self) -> bool:
        return self._is_cut or self._over.done()

    async def answered(self, kind: bytes, body: bytes, *, limit: float) -> tuple[bool, bytes]:
        """Whether a request was done, and what was said.

        Raises TimeoutError where nothing is said for ``limit`` seconds, or ConnectionError where the process ended.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[tuple[bool, bytes]] = loop.create_future()
        self._answer, self._limit = answer, limit
        if self.is_over:
            raise ConnectionResetError
        self._sink.write(LENGTH.pack(len(body) + 1) + kind + body)
        self._wait()
        try:
            return await answer
        finally:
            self._late.cancel()
            self._answer = None

    def _wait(self) -> None:
        """For the next words."""
        self._late = asyncio.get_running_loop().call_later(self._limit, self._fail, TimeoutError())

    def _fail(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)

    async def end(self, *, within: float) -> tuple[int | None, str]:
        """Its exit status, and what it said of trouble. Killed where it does not end by itself in time (seconds)."""
        if within:
            self._sink.close()
            await asyncio.wait([self._over], timeout=within)
        if not self._over.done():
            with suppress(ProcessLookupError):
                self._transport.kill()
        await self._over
        self._transport.close()
        return self._transport.get_returncode(), self._wrong.decode(errors="replace")

    # --- of asyncio ---------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._transport = transport
        sink = transport.get_pipe_transport(0)
        assert isinstance(sink, asyncio.WriteTransport)
        self._sink = sink

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd != 1:
            self._wrong += data
            del self._wrong[:-_MOST_SAID]
            return
        said, head = self._said, LENGTH.size
        said += data
        while len(said) >= head:
            (length,) = LENGTH.unpack_from(said)
            if len(said) < head + length:
                return
            kind = bytes(said[head : head + 1])
            if kind == MORE and self._answer is not None:
                self._late.cancel()
                self._wait()
            self._pieces.append(bytes(said[head + 1 : head + length]))
            del said[: head + length]
            if kind != MORE:
                answer, self._pieces = b"".join(self._pieces), []
                if self._answer is not None and not self._answer.done():
                    self._answer.set_result((kind == DONE, answer))

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 -- as asyncio calls it
        if fd != 2:
            self._is_cut = True
            self._fail(ConnectionResetError())

    def process_exited(self) -> None:
        self._is_cut = True
        self._fail(ConnectionResetError())

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 -- as asyncio calls it
        if not self._over.done():
            self._over.set_result(None)
