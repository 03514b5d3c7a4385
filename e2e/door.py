"""A TCP proxy from a network namespace to a server on the loopback of the tests."""

import asyncio
import ctypes
import socket
import threading
from pathlib import Path
from typing import Final, Self

_CLONE_NEWNET: Final = 0x40000000
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


class Door:
    """A port on the loopback of a network namespace that leads to the same port on the loopback of the tests."""

    def __init__(self, namespace: Path, port: int) -> None:
        self._namespace, self._port = namespace, port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._socket: socket.socket | None = None

    def __enter__(self) -> Self:
        opening = threading.Thread(target=self._open)
        opening.start()
        opening.join()
        assert self._socket is not None, f"no socket in {self._namespace}"
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        assert self._socket is not None
        self._socket.close()

    def _open(self) -> None:
        """Runs in a separate thread, because it enters the namespace."""
        with self._namespace.open() as file:
            if _LIBC.setns(file.fileno(), _CLONE_NEWNET) == 0:
                self._socket = socket.create_server(("127.0.0.1", self._port))

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._pass, sock=self._socket))
        self._loop.run_forever()
        server.close()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            reply, back = await asyncio.open_connection("127.0.0.1", self._port)
            await asyncio.gather(_pump(reader, back), _pump(reply, writer))
        except (OSError, asyncio.CancelledError):
            # The API server is down, and the client retries; or the door closes.
            writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()
