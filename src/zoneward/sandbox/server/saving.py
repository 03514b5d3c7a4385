"""All objects of a registry as a ``List``, which ``-f`` reads again."""

from typing import IO

from zoneward.sandbox.server.registry import Registry


def write_all(registry: Registry, stream: IO[bytes]) -> None:
    """JSON, one object a line; those with no more than their kind's stored version once."""
    stream.write(b'{"kind":"List","apiVersion":"v1","metadata":{},"items":[')
    separator = b"\n"
    for kind in registry.kinds.values():
        if kind.stored_as is None:
            for _, record in registry.store.records(kind):
                stream.write(separator)
                stream.write(record.data)
                separator = b",\n"
    stream.write(b"\n]}\n")
