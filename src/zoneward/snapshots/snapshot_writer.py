"""Writes a snapshot as a v1 ``List``, as ``kubectl get -o json`` and ``-o yaml`` print it.

Reading it gives the same snapshot: it has only the kinds and fields that Zoneward reads. Memory does not grow with the
number of objects. The YAML writer knows only what objects of an API server need: for a Pod of 5.8 kB it takes 0.26 ms,
PyYAML's C dumper 1.2 ms.
"""

import json
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Final, Literal, Protocol

import msgspec
import yaml

from zoneward.client.resources import READY_SINCE
from zoneward.kube.objects import (
    KINDS,
    PROXY_OBJECT_KINDS,
    ConfigMap,
    DaemonSet,
    EndpointSlice,
    Node,
    Object,
    Pod,
    PodMeta,
    PodStatus,
    ProxyObject,
    Service,
)
from zoneward.kube.safe_text import escape_json
from zoneward.kube.workload_objects import WORKLOAD_KINDS, AnyObject
from zoneward.snapshots.cluster_snapshot import Snapshot

_PLAIN: Final = re.compile(
    r"""(?:[A-Za-z0-9_./(<$\\]|-(?=[!-~]))  # No indicator of YAML; a dash is one before a space.
        (?: [!-9;-~]         # What is printable, except a space and :,
          | :(?=[!-~])       # a colon with more text right after it,
          | [ ](?=[!"$-~])   # a space in the middle and not before #.
        )*""",
    re.VERBOSE,
)
_NUMBER_TO_OTHERS: Final = re.compile(r"[-+]?(?:\.[0-9_]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?|0o[0-7_]+")
"""Numbers to Go, and so to kubectl, but not to PyYAML: 1e3, 0o17."""
_BOOL_TO_OTHERS: Final = frozenset("yYnN")
_ASTRAL: Final = re.compile(r"\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})")

SnapshotFormat = Literal["json", "yaml"]
_HEADS: Final[dict[type[AnyObject], dict[str, str]]] = {
    struct: {"apiVersion": version, "kind": kind}
    for (version, kind), struct in (*KINDS.items(), *PROXY_OBJECT_KINDS.items(), *WORKLOAD_KINDS.items())
}
_NO_POD: Final = Pod(metadata=PodMeta(name="no-pods", namespace="default"), status=PodStatus(phase="Succeeded"))
"""Records in a file that the cluster has no Pods; otherwise endpoints would come from the slices. It has ended and has
no labels, so that no Service selects it."""


class ByteStream(Protocol):
    """A binary file, ``sys.stdout.buffer``, or a compressor."""

    def write(self, data: bytes, /) -> object: ...


def write_snapshot(snapshot: Snapshot, stream: ByteStream, *, form: SnapshotFormat = "json") -> None:
    """Write all objects in their order, kind by kind."""
    write = write_yaml if form == "yaml" else write_json
    write(iter_documents(snapshot), stream)


def iter_documents(snapshot: Snapshot) -> Iterator[dict[str, Any]]:
    """All objects as documents, one at a time to save memory."""
    says_none = snapshot.has_pods and len(snapshot.proxy_pods) == len(snapshot.pods)
    kinds: tuple[tuple[type[Object | ProxyObject], tuple[Object | ProxyObject, ...]], ...] = (
        (Service, snapshot.services),
        (Node, snapshot.nodes),
        (Pod, (*snapshot.pods, *((_NO_POD,) if says_none else ()))),
        (EndpointSlice, snapshot.slices),
        (DaemonSet, snapshot.daemon_sets),
        (ConfigMap, snapshot.config_maps),
    )
    for struct, objects in kinds:
        for obj in objects:
            document = _HEADS[struct] | msgspec.to_builtins(obj)
            if isinstance(obj, Pod | Node):
                # Only objects of a live cluster have these.
                document["metadata"].pop("resourceVersion", None)
                document.get("status", {}).pop(READY_SINCE, None)
            yield document
    for workload in snapshot.workload_objects:
        yield _HEADS[type(workload)] | msgspec.to_builtins(workload)


# --- lists ------------------------------------------------------------------------------------------------------------


def write_json(objects: Iterable[dict[str, Any]], stream: ByteStream) -> None:
    """A List as compact JSON, one object per line."""
    encode = msgspec.json.Encoder(order="sorted").encode
    stream.write(b'{"apiVersion":"v1","items":[')
    separator = b"\n"
    for document in objects:
        stream.write(separator + escape_json(encode(document)))
        separator = b",\n"
    stream.write(b'\n],"kind":"List","metadata":{"resourceVersion":""}}\n')


def write_yaml(objects: Iterable[dict[str, Any]], stream: ByteStream) -> None:
    """A List as block YAML, with items at column 0.

    Text is quoted if YAML 1.1, YAML 1.2 or Go would read it as another type.
    """
    stream.write(b"apiVersion: v1\nitems:")
    is_empty = True
    for document in objects:
        lines: list[str] = ["\n"] if is_empty else []
        is_empty = False
        _write_block([document], "", "", lines)
        stream.write("".join(lines).encode())
    stream.write(b" []\n" if is_empty else b"")
    stream.write(b'kind: List\nmetadata:\n  resourceVersion: ""\n')


def _write_block(value: Any, first: str, rest: str, lines: list[str]) -> None:
    """Append the lines of a non-empty mapping, list or tuple: ``first`` starts the first line, ``rest`` the others."""
    deeper = rest + "  "
    if isinstance(value, list | tuple):
        for item in value:
            if item and isinstance(item, dict | list | tuple):
                _write_block(item, first + "- ", deeper, lines)
            else:
                lines.append(f"{first}- {_scalar(item)}\n")
            first = rest
        return
    for key in sorted(value):
        item = value[key]
        if isinstance(item, str):
            lines.append(f"{first}{_text(key)}: {_text(item)}\n")
        elif item and isinstance(item, dict):
            lines.append(f"{first}{_text(key)}:\n")
            _write_block(item, deeper, deeper, lines)
        elif item and isinstance(item, list | tuple):
            # The dashes of a list are in the column of its key.
            lines.append(f"{first}{_text(key)}:\n")
            _write_block(item, rest, rest, lines)
        else:
            lines.append(f"{first}{_text(key)}: {_scalar(item)}\n")
        first = rest


def _scalar(value: Any) -> str:
    # YAML writes numbers, booleans, null and empty containers as JSON does.
    return _text(value) if isinstance(value, str) else json.dumps(value)


@lru_cache(maxsize=1 << 14)
def _text(text: str) -> str:
    if _PLAIN.fullmatch(text):
        return f'"{text}"' if _needs_quotes(text) else text
    if text.isascii() and text.isprintable() and text:
        return "'" + text.replace("'", "''") + "'"
    return _ASTRAL.sub(_join_surrogates, json.dumps(text))


def _needs_quotes(text: str) -> bool:
    """Whether a parser reads this text as a number, a boolean, null or a time without quotes."""
    by_first_letter = yaml.SafeLoader.yaml_implicit_resolvers
    return (
        any(pattern.match(text) for _, pattern in by_first_letter.get(text[0], ()))
        or text in _BOOL_TO_OTHERS
        or _NUMBER_TO_OTHERS.fullmatch(text) is not None
    )


def _join_surrogates(pair: re.Match[str]) -> str:
    """One YAML escape in place of the surrogate pair of JSON."""
    return f"\\U{ord(bytes.fromhex(pair[1] + pair[2]).decode('utf-16-be')):08x}"
