"""The objects of a sandbox at its start, from files, and into a file."""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import IO, Any, Final

import msgspec

from zoneward.kube import yaml_documents
from zoneward.kube.input_error import FieldMismatch, InputError, MalformedText
from zoneward.kube.input_files import decode_text
from zoneward.kube.object_reader import iter_documents
from zoneward.kube.struct_decoder import ObjectHead, object_head
from zoneward.sandbox.server.catalog import kinds
from zoneward.sandbox.server.kinds import Kind, Object, ServerGates
from zoneward.sandbox.server.resource_registry import Registry
from zoneward.sandbox.server.status_errors import StatusError
from zoneward.sandbox.server.versioned_store import VersionedStore

NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")


def new_registry(
    *,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    chance: random.Random | None = None,
    gates: ServerGates | None = None,
) -> Registry:
    """A registry with the namespaces of every cluster and the Service of the API server, without endpoints."""
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
    """Store all objects of known kinds. Returns counts of the others, by version and kind.

    Missing namespaces are created, until the files have them. Raises InputError for the first object that the API would
    refuse.
    """
    known = {(kind.api, kind.kind): kind for kind in registry.kinds.values()}
    skipped: Counter[str] = Counter()
    for source, data in files:
        for document_number, value in _objects_in(source, data):
            head = object_head(value)
            kind = known.get((head.api_version or "", head.kind or ""))
            if kind is None:
                skipped[f"{head.api_version}/{head.kind}"] += 1
            else:
                _restore(registry, kind, value, source, document_number)
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


def _objects_in(source: str, data: bytes | bytearray) -> Iterator[tuple[int, Any]]:
    """Objects with the number of their document; those in a ``List`` one by one."""
    document_number = 1
    try:
        text = decode_text(source, data)
        for document in iter_documents(text, read_yaml=lambda text, start: yaml_documents.documents(text, start=start)):
            for value in document if isinstance(document, list) else (document,):
                for obj in _flat(value):
                    yield document_number, obj
            document_number += 1
    except FieldMismatch as mismatch:
        raise mismatch.error(source, document_number) from None
    except MalformedText as error:
        position = f"line {error.line}, column {error.column}"
        raise InputError(source, f"document {document_number}", position, error.problem) from None
    except RecursionError:
        raise InputError(source, f"document {document_number}", "malformed JSON: too many levels") from None


def _flat(value: Any) -> Iterator[Any]:
    if value is None:
        return
    head = value if isinstance(value, ObjectHead) else object_head(value)
    if not (head.kind or "").endswith("List") or head.items is msgspec.UNSET:
        yield value
        return
    # Items of a PodList have no kind.
    item_kind = (head.kind or "").removesuffix("List")
    for item in head.items or ():
        if item_kind and object_head(item).kind is None:
            obj: Object = msgspec.json.decode(item) if isinstance(item, msgspec.Raw) else item
            yield {"kind": item_kind, "apiVersion": head.api_version} | obj
        else:
            yield from _flat(item)


def save_objects(registry: Registry, stream: IO[bytes]) -> None:
    """Write JSON, one object per line, each kind in its stored version."""
    stream.write(b'{"kind":"List","apiVersion":"v1","metadata":{},"items":[')
    separator = b"\n"
    for kind in registry.kinds.values():
        if kind.stored_as is None:
            for _, record in registry.store.records(kind):
                stream.write(separator)
                stream.write(record.data)
                separator = b",\n"
    stream.write(b"\n]}\n")
