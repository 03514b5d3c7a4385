"""The process that holds libnftables, and the only one that needs CAP_NET_ADMIN: ``python -m`` this module.

It reads requests from its standard input until that ends, and writes answers to its standard output. A request is the
length of its body in 8 bytes, and the body; the first byte of the body is the kind of request. An answer has the same
form, and begins with 0 for done, 1 for refused, and 2 where more of it follows. Requests are answered in order. The
process logs nothing and keeps no state, and the kernel's rules stay when it ends.

It imports nothing but the standard library, to start fast and stay small.
"""

import ctypes
import os
import signal
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from typing import Final

RUN: Final = b"r"
"""Run nft commands as one transaction. The answer is nft's output."""
ASK: Final = b"a"
"""Send a netlink request, unchanged; the answer is the kernel's, unchanged, including errors."""
SEND: Final = b"s"
"""Send a transaction of netlink messages, unchanged; the answer is the kernel's, unchanged, including errors."""
DONE: Final = b"\0"
REFUSED: Final = b"\1"
MORE: Final = b"\2"
LENGTH: Final = struct.Struct("<Q")
UNUSABLE: Final = 3
"""The exit status if rules cannot be programmed on this machine; the reason is on standard error."""
_NETFILTER: Final = 12
_BUFFER: Final = 1 << 18
_SO_SNDBUFFORCE: Final = 32
_NO_NEW_PRIVILEGES: Final = 38
_PARENT_DEATH_SIGNAL: Final = 1
_CAPABILITY_VERSION: Final = 0x20080522
_NET_ADMIN: Final = 1 << 12
_LIBRARY: Final = "libnftables.so.1"
_NO_DNS: Final = 1


class NftLibrary:
    """libnftables with a separate context. Raises OSError if the library is missing."""

    def __init__(self) -> None:
        library = ctypes.CDLL(_LIBRARY)
        library.nft_ctx_new.restype = ctypes.c_void_p
        self._context = ctypes.c_void_p(library.nft_ctx_new(0))
        for name in ("nft_ctx_get_error_buffer", "nft_ctx_get_output_buffer"):
            getattr(library, name).restype = ctypes.c_char_p
        if hasattr(library, "nft_ctx_input_set_flags"):
            library.nft_ctx_input_set_flags(self._context, _NO_DNS)
        library.nft_ctx_buffer_error(self._context)
        library.nft_ctx_buffer_output(self._context)
        self._library = library

    def run(self, commands: bytes) -> tuple[bool, bytes]:
        """Run commands, all or none. Returns whether the kernel accepted them, and the output."""
        if b"\0" in commands:
            # The library would run only the commands before the zero byte, and report success.
            return False, b"Error: expected commands without a zero byte"
        done, said = self._ran(self._library.nft_run_cmd_from_buffer, commands)
        if done or commands.count(b"\n") < 2:
            return done, said
        # The library shows the line at fault only for a file; for a buffer it shows the first line.
        try:
            with os.fdopen(os.memfd_create("commands"), "wb") as file:
                file.write(commands)
                file.flush()
                return self._ran(self._library.nft_run_cmd_from_filename, f"/proc/self/fd/{file.fileno()}".encode())
        except OSError:
            return done, said

    def _ran(self, function: Callable[[ctypes.c_void_p, bytes], int], argument: bytes) -> tuple[bool, bytes]:
        library, context = self._library, self._context
        status = function(context, argument)
        # Reading a buffer empties it, so both are read.
        said, wrong = library.nft_ctx_get_output_buffer(context), library.nft_ctx_get_error_buffer(context)
        return status == 0, (said if status == 0 else wrong) or b""


def query_kernel(request: bytes) -> Iterator[bytes]:
    """The kernel's answer to one request, in parts. Raises OSError."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETFILTER) as kernel:
        kernel.bind((0, 0))
        kernel.send(request)
        while True:
            datagram = kernel.recv(_BUFFER)
            yield datagram
            if _is_last(datagram):
                return


class TransactionSocket:
    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETFILTER)
        self._kernel.bind((0, 0))
        self._room = 0

    def answer(self, request: bytes) -> bytes:
        """The kernel's answer to one transaction, whose last message requests it. Raises OSError."""
        try:
            return self._answer(request)
        except OSError:
            # If the errors did not fit into the buffer, the rest would be read as the next transaction's answer.
            self._kernel.close()
            self._begin()
            raise

    def _answer(self, request: bytes) -> bytes:
        kernel = self._kernel
        if len(request) > self._room:
            # The kernel doubles this value, for its own overhead.
            kernel.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, len(request))
            self._room = len(request)
        kernel.send(request)
        answer = kernel.recv(_BUFFER)
        while True:
            # The whole answer is available by now.
            try:
                answer += kernel.recv(_BUFFER, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return answer


def _is_last(datagram: bytes) -> bool:
    """Whether a datagram has the message that ends an answer, or an error message."""
    position = 0
    while position + 16 <= len(datagram):
        length, kind = struct.unpack_from("=IH", datagram, position)
        if kind in (2, 3) or length < 16:
            return True
        position += (length + 3) & ~3
    return False


def _answer(
    library: NftLibrary, sender: TransactionSocket, request: bytes, say: Callable[[bytes, bytes], None]
) -> None:
    if request[:1] == RUN:
        done, said = library.run(request[1:])
        say(DONE if done else REFUSED, said)
        return
    try:
        if request[:1] == SEND:
            say(DONE, sender.answer(request[1:]))
            return
        # In parts: the whole answer would be in memory twice.
        for piece in query_kernel(request[1:]):
            say(MORE, piece)
    except OSError as error:
        say(REFUSED, f"{error.errno} {error.strerror}".encode())
    else:
        say(DONE, b"")


def keep_one_capability() -> None:
    """Drop all capabilities except CAP_NET_ADMIN, and prevent child processes from gaining any."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    head, words = struct.pack("=Ii", _CAPABILITY_VERSION, 0), ctypes.create_string_buffer(24)
    if libc.capget(head, words):
        return
    effective, permitted, *_ = struct.unpack("=6I", words.raw)
    capabilities = (effective & _NET_ADMIN, permitted & _NET_ADMIN, 0, 0, 0, 0)
    libc.capset(head, struct.pack("=6I", *capabilities))


def disable_dns() -> None:
    """Resolve host names from files only: nft parses a word in the position of an address as a host name.

    A name server that does not answer would block the process, and it may be reachable only through these rules. Newer
    versions of the library have a flag for this.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "__nss_configure_lookup"):
        libc["__nss_configure_lookup"](b"hosts", b"files")


def end_with_parent() -> None:
    """End when the parent does: a late transaction could undo changes of the parent's successor."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(0)


def main() -> int:
    end_with_parent()
    disable_dns()
    try:
        library = NftLibrary()
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        return UNUSABLE
    try:
        sender = TransactionSocket()
    except OSError as error:
        sys.stderr.write(f"the kernel has no nf_tables: {error.strerror}\n")
        return UNUSABLE
    keep_one_capability()
    source, sink = sys.stdin.buffer, sys.stdout.buffer

    def say(kind: bytes, text: bytes) -> None:
        sink.write(LENGTH.pack(len(text) + 1) + kind + text)

    while True:
        head = source.read(LENGTH.size)
        if len(head) < LENGTH.size:
            return 0
        (length,) = LENGTH.unpack(head)
        request = source.read(length)
        if len(request) < length:
            # The parent died while writing: an incomplete request is not run.
            return 0
        _answer(library, sender, request, say)
        sink.flush()


if __name__ == "__main__":
    # Ctrl-C at a terminal is for the parent, which ends this process by closing the pipe.
    os.setpgid(0, 0)
    sys.exit(main())
