"""The objects of a sandbox at its start, from files, and into a file."""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import IO, Any, Final

import msgspec

from zoneward.kube import json_documents
from zoneward.kube.input_error import FieldMismatch, InputError, MalformedText
from zoneward.kube.struct_decoder import object_head
from zoneward.kube.text_encoding import decode_text
from zoneward.sandbox.server.catalog import ServerGates, kinds
from zoneward.sandbox.server.kinds import Kind, Object
from zoneward.sandbox.server.resource_registry import Registry
from zoneward.sandbox.server.status_errors import StatusError
from zoneward.sandbox.server.versioned_store import VersionedStore

_BLANK: Final = re.compile(rb"\s*(?:---[ \t]*\r?\n\s*)?")
_NOT_JSON_AFTER: Final = 1 << 20
"""A mistake further inside a document that looks like JSON is one."""
_CLUSTER_WIDE_FIRST: Final = ("Namespace", "Node")
NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")


def new_registry(
    *,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    chance: random.Random | None = None,
    gates: ServerGates | None = None,
) -> Registry:
    """With what every cluster has: its namespaces, and the Service of the API server, which has no endpoints here."""
    known = kinds(gates)
    registry = Registry(VersionedStore(known), known, now=now, chance=chance)
    for name in NAMESPACES:
        registry.restore(registry.kinds["namespaces"], a_namespace(name) | {"spec": {"finalizers": ["kubernetes"]}})
    labels = {"component": "apiserver", "provider": "kubernetes"}
    ports = [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}]
    spec = {"clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"], "ports": ports}
    api = {"metadata": {"name": "kubernetes", "namespace": "default", "labels": labels}, "spec": spec}
    registry.restore(registry.kinds["services"], api)
    return registry


def load_objects(registry: Registry, files: Sequence[tuple[str, bytes | bytearray]]) -> Counter[str]:
    """Take over all objects of known kinds, namespaces and nodes first; others are counted, by version and kind.

    Namespaces that objects are in and that no file has are made. Raises InputError for the first that can't be taken.
    """
    known = {(kind.api, kind.kind): kind for kind in registry.kinds.values()}
    skipped: Counter[str] = Counter()
    later: list[tuple[Kind, msgspec.Raw | Object, str, int]] = []
    for source, data in files:
        for document_number, value in _each(source, data):
            head = object_head(value)
            kind = known.get((head.api_version or "", head.kind or ""))
            if kind is None:
                skipped[f"{head.api_version}/{head.kind}"] += 1
            elif kind.kind in _CLUSTER_WIDE_FIRST:
                _restore(registry, kind, value, source, document_number)
            else:
                later.append((kind, value, source, document_number))
    later.reverse()
    while later:
        # Each is freed when it is stored.
        _restore(registry, *later.pop())
    return skipped


def _restore(registry: Registry, kind: Kind, value: msgspec.Raw | Object, source: str, document_number: int) -> None:
    obj: Object = msgspec.json.decode(value) if isinstance(value, msgspec.Raw) else value
    value_metadata = obj.get("metadata")
    metadata: Object = value_metadata if isinstance(value_metadata, dict) else {}
    namespace = str(metadata.get("namespace") or "default") if kind.is_namespaced else ""
    try:
        if namespace and registry.find("namespaces", "", namespace) is None:
            registry.restore(registry.kinds["namespaces"], a_namespace(namespace))
        registry.restore(kind, obj)
    except StatusError as refusal:
        title = "/".join(part for part in (namespace, str(metadata.get("name", ""))) if part)
        raise InputError(source, f"document {document_number}", f"{kind.kind} {title}", refusal.message) from None


def a_namespace(name: str) -> Object:
    return {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}}


def _each(source: str, data: bytes | bytearray) -> Iterator[tuple[int, Any]]:
    """Objects with the number of their document; those in a ``List`` one by one."""
    document_number = 0
    try:
        for document_number, document in enumerate(_documents(decode_text(source, data)), start=1):
            for value in _flat(document):
                yield document_number, value
    except FieldMismatch as misfit:
        raise misfit.error(source, document_number) from None
    except MalformedText as error:
        position = f"line {error.line}, column {error.column}"
        raise InputError(source, f"document {document_number + 1}", position, error.problem) from None


def _flat(value: Any) -> Iterator[Any]:
    head = object_head(value)
    if not (head.kind or "").endswith("List") or head.items is msgspec.UNSET:
        yield value
        return
    # Items of a PodList say no kind: they are Pods.
    named = (head.kind or "").removesuffix("List")
    for item in head.items or ():
        of = object_head(item)
        if of.kind is None and named:
            obj: Object = msgspec.json.decode(item) if isinstance(item, msgspec.Raw) else item
            yield {"kind": named, "apiVersion": head.api_version} | obj
        else:
            yield from _flat(item)


def _documents(text: bytes | bytearray) -> Iterator[Any]:
    end = 0
    while True:
        blank = _BLANK.match(text, end)
        start = blank.end() if blank else end
        if start >= len(text):
            return
        if text[start] not in b"{[":
            yield from _yaml(text, end)
            return
        try:
            document, end = json_documents.next_document(text, start)
        except MalformedText as error:
            if error.offset == len(text) or error.offset - start > _NOT_JSON_AFTER:
                raise
            # YAML may begin like JSON.
            yield from _yaml(text, end)
            return
        yield document


def _yaml(text: bytes | bytearray, start: int) -> Iterator[Any]:
    # Only who has YAML waits for the import.
    from zoneward.kube.yaml_documents import whole_documents

    yield from (document for document in whole_documents(text[start:]) if document is not None)


def save_objects(registry: Registry, stream: IO[bytes]) -> None:
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
