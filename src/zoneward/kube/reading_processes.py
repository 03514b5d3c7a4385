"""Decodes the items of a long list in several processes, each a copy of this one with some of the items.

To send an object takes a small part of the time that its JSON does: few of its fields are read. What a process cannot
decode this one decodes itself, so that mistakes are told as if there were no other processes.
"""

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import groupby, pairwise
from signal import SIGKILL
from typing import BinaryIO, Final, NoReturn

import msgspec

from zoneward.kube.objects import KINDS, PROXY_OBJECT_KINDS, ProxyPod
from zoneward.kube.workload_objects import WORKLOAD_KINDS, AnyObject

DecodeItems = Callable[[range, Counter[str]], Iterator[AnyObject]]
"""Decodes the items with these numbers, and counts what it skips."""

_LEAST: Final = 5_000
"""With fewer items, another process is not worth its start."""
_MOST_PROCESSES: Final = 8
_SENDING: Final = 0.2
"""To encode what a copy sends takes about so much of the time that decoding JSON does."""

_Sent = tuple[dict[str, int], list[tuple[str, msgspec.Raw]]]
"""What was skipped, and the objects: runs of the same type, by its name."""
_SENT: Final = msgspec.msgpack.Decoder(_Sent)
_OBJECTS: Final[dict[str, msgspec.msgpack.Decoder[list[AnyObject]]]] = {
    kind.__name__: msgspec.msgpack.Decoder(list[kind])  # type: ignore[valid-type]
    for kind in (*KINDS.values(), ProxyPod, *PROXY_OBJECT_KINDS.values(), *WORKLOAD_KINDS.values())
}


def available_processes() -> int:
    """As many as the machine has cores, where a process can be copied; else 1."""
    return (os.cpu_count() or 1) if hasattr(os, "fork") and sys.platform != "darwin" else 1


def decode_items(
    number: int, decode: DecodeItems, skipped: Counter[str], *, processes: int | None = None
) -> Iterator[AnyObject]:
    """What ``decode`` yields for all items, by their number. ``processes``: as many as are worth it."""
    if processes is None:
        processes = min(available_processes(), _MOST_PROCESSES) if number >= _LEAST else 1
    first, *others = _parts(number, processes)
    with _copies([partial(_encoded, part, decode) for part in others]) as outputs:
        yield from decode(first, skipped)
        for part, output in zip(others, outputs, strict=True):
            try:
                counts, runs = _SENT.decode(output.read())
            except msgspec.DecodeError:
                yield from decode(part, skipped)
                continue
            skipped.update(counts)
            for name, objects in runs:
                yield from _OBJECTS[name].decode(objects)


def _parts(number: int, processes: int) -> list[range]:
    """As many items for each process as it can decode while the others do. This one encodes nothing; what the others
    send it decodes when it has done its own."""
    others = processes - 1
    own = number - int(number * others / (1 + _SENDING + others))
    bounds = [0, *(own + (number - own) * process // max(others, 1) for process in range(processes))]
    return [range(*each) for each in pairwise(bounds)]


def _encoded(part: range, decode: DecodeItems) -> bytes:
    skipped = Counter[str]()
    runs = [(kind.__name__, list(objects)) for kind, objects in groupby(decode(part, skipped), type)]
    return msgspec.msgpack.encode((skipped, runs))


@contextmanager
def _copies(calls: Iterable[Callable[[], bytes]]) -> Iterator[list[BinaryIO]]:
    """Copies of this process, each of which calls a function: streams of what these return, cut short where they fail.

    The copies end with the block.
    """
    children: list[int] = []
    with ExitStack() as stack:
        try:
            outputs: list[BinaryIO] = []
            for call in calls:
                reader, writer = os.pipe()
                outputs.append(stack.enter_context(os.fdopen(reader, "rb")))
                try:
                    child = os.fork()
                    if not child:
                        _send(call, writer)
                    children.append(child)
                except OSError:
                    # There may be as many processes as there may be.
                    pass
                finally:
                    os.close(writer)
            yield outputs
        finally:
            for child in children:
                os.kill(child, SIGKILL)
                os.waitpid(child, 0)


def _send(call: Callable[[], bytes], writer: int) -> NoReturn:
    """In the copy, which ends here: it leaves alone what it shares with the original, such as open files."""
    try:
        sent = call()
        with os.fdopen(writer, "wb") as stream:
            stream.write(sent)
    finally:
        os._exit(0)
