"""Reads Kubernetes objects from bytes of JSON or YAML, in all forms that ``kubectl`` prints and people write.

Errors name the document, object and field. Only the bytes and the objects are in memory: items of a ``List``
are decoded one by one. Objects are checked before use: names, addresses, ports, zones, quantities. The checks refuse
only input that no API server accepts and that would make an answer wrong. An API server accepts the zone ``my zone`` of
an endpoint and the port 70000 of an EndpointSlice, so these are read. `zoneward.kube.validation` has all rules of the
API. Annotations and ``trafficDistribution`` are checked where they are interpreted.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, reduce
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from zoneward.kube import json_documents, names, yaml_documents
from zoneward.kube.formats import label_value_problems, parse_quantity
from zoneward.kube.input_error import FieldMismatch, InputError, MalformedText, show
from zoneward.kube.input_files import decode_text
from zoneward.kube.json_documents import simplify_json
from zoneward.kube.objects import (
    KINDS,
    PROXY_OBJECT_KINDS,
    ConfigMap,
    DaemonSet,
    EndpointSlice,
    Node,
    Object,
    PlainMeta,
    Pod,
    ProxyObject,
    ProxyPod,
    Service,
)
from zoneward.kube.proxy_programs import (
    is_read_config_map,
    may_run_proxy,
    reduce_config_map,
    reduce_daemon_set,
    reduce_pod,
)
from zoneward.kube.struct_decoder import (
    FieldTree,
    ObjectHead,
    decode_object,
    field_tree,
    merge_trees,
    object_head,
    object_title,
    refuse_duplicate_keys,
)
from zoneward.kube.validation import ADDRESS_TYPES
from zoneward.kube.workload_objects import WORKLOAD_KINDS, AnyObject, WorkloadObject, normalized

_Kind = tuple[str | None, str | None]
"""apiVersion and kind."""
_STRUCTS: Final = tuple(KINDS.values())
_PROXY_STRUCTS: Final = tuple(PROXY_OBJECT_KINDS.values())
_READ: Final[tuple[type[Object | ProxyObject], ...]] = (*_STRUCTS, *_PROXY_STRUCTS)
_BLANK: Final = re.compile(rb"(?:\s|\xef\xbb\xbf)*(?:---[ \t]*\r?\n\s*(?=[{\[]))?")
"""Text to skip before a JSON document. Concatenated files have a byte order mark at the start of each."""
_NOT_JSON_AFTER: Final = 1 << 20
"""Offset of a syntax error in a JSON document beyond which YAML is not tried, because that takes long."""
_QUICK_HEAD: Final = re.compile(rb'\{\s*"apiVersion"\s*:\s*"([!#-\[\]-~]+)"\s*,\s*"kind"\s*:\s*"([!#-\[\]-~]+)"')
"""How kubectl begins every object. With it, the decoder does not need to skim an object for its kind first."""
_KINDS_BY_TEXT: Final = {(version.encode(), name.encode()): kind for (version, name), kind in KINDS.items()}
HAND_WRITTEN_BYTES: Final = 10 << 20
"""Size of text, in bytes, up to which a person may have written it: only that is searched for duplicate keys."""


def read_objects(source: str, data: bytes | bytearray, *, skipped: Counter[str]) -> Iterator[AnyObject]:
    """The Services, Nodes, Pods, EndpointSlices, objects of node proxies, and workload objects in the data, in order.

    JSON and YAML, single or many documents, any ``List`` and lists of lists, UTF-8 or UTF-16, gzipped or not.
    ``source`` names the data in errors. Objects of any other kind or version are counted in ``skipped``, as
    ``apps/v1/Deployment``. Raises InputError, after yielding the objects of all earlier documents.
    """
    text = decode_text(source, data)
    del data  # Free compressed data before decoding.
    document_number = 1
    try:
        for document in iter_documents(text, read_yaml=_read_wanted):
            if isinstance(document, list):
                yield from _list_objects(document, "", (None, None), skipped)
            elif document is not None:
                yield from _objects(document, (None, None), skipped)
            document_number += 1
    except FieldMismatch as mismatch:
        raise mismatch.error(source, document_number) from None
    except MalformedText as error:
        position = f"line {error.line}, column {error.column}"
        raise InputError(source, f"document {document_number}", position, error.problem) from None
    except RecursionError:
        raise InputError(source, f"document {document_number}", "malformed JSON: too many levels") from None


# --- bytes to documents -----------------------------------------------------------------------------------------------


YamlReader = Callable[[bytes | bytearray, int], Iterator[object]]
"""Reads all YAML documents of a text from an offset on."""


def iter_documents(text: bytes | bytearray, *, read_yaml: YamlReader) -> Iterator[object]:
    """Undecoded JSON, the head of a large list, YAML values, a list of either, or None for an empty document.

    Raises MalformedText, RecursionError, and FieldMismatch for duplicate keys.
    """
    end = 0
    while (start := _start(text, end)) < len(text):
        if text[start] not in b"{[":
            if end and not text.startswith((b"---", b"...", b"#"), start):
                raise MalformedText.at(text, start, "malformed JSON: trailing characters")
            yield from read_yaml(text, start)
            return
        if not end and (whole := _whole_list(text, start)) is not None:
            yield whole
            return
        try:
            try:
                document, end = json_documents.next_document(text, start)
            except RecursionError:
                text = simplify_json(text)
                document, end = json_documents.next_document(text, start)
        except MalformedText as error:
            if error.offset == len(text) or error.offset - start > _NOT_JSON_AFTER:
                raise
            yield from _flow_style(read_yaml(text, start), error)
            return
        if len(text) <= HAND_WRITTEN_BYTES:
            refuse_duplicate_keys(document)
        yield msgspec.json.decode(document, type=list[msgspec.Raw]) if text[start] in b"[" else document


def _whole_list(text: bytes | bytearray, start: int) -> ObjectHead | None:
    """The head of a large text that is a single list: to find the end of the document first takes another pass.

    None for any other text; the usual path reads it or reports what is wrong.
    """
    if len(text) <= HAND_WRITTEN_BYTES or text[start] not in b"{":
        return None
    try:
        head = object_head(msgspec.Raw(memoryview(text)[start:]))
    except (FieldMismatch, msgspec.DecodeError, RecursionError):
        return None
    return head if head.items and head.kind and head.kind.endswith("List") else None


def _start(text: bytes | bytearray, end: int) -> int:
    blank = _BLANK.match(text, end)
    return blank.end() if blank else end


def _flow_style(documents: Iterator[object], error: MalformedText) -> Iterator[object]:
    """YAML that begins with a brace. If that fails too, raise the error of JSON."""
    try:
        first = next(documents)
    except MalformedText:
        raise error from None
    yield first
    yield from documents


def _read_wanted(text: bytes | bytearray, start: int) -> Iterator[object]:
    return yaml_documents.documents(text, start=start, shape=_WANTED, take=_take)


# --- documents to objects ---------------------------------------------------------------------------------------------


def _objects(value: object, default: _Kind, skipped: Counter[str]) -> Iterator[AnyObject]:
    """``default`` is for items of lists such as ``PodList``, which may have no kind. Raises FieldMismatch."""
    if isinstance(value, _READ):
        yield value
        return
    if isinstance(value, FieldMismatch):
        raise value
    head = value if isinstance(value, ObjectHead) else object_head(value)
    version, kind = head.api_version or default[0], head.kind or default[1]
    if not kind:
        raise FieldMismatch("kind", "a kind such as Service", "nothing")
    if not version:
        raise FieldMismatch("apiVersion", "a version such as v1", "nothing")
    if (version, kind) in KINDS:
        yield _struct(value, KINDS[version, kind])
        return
    if (version, kind) in PROXY_OBJECT_KINDS:
        proxy_object = _proxy_object(value, PROXY_OBJECT_KINDS[version, kind])
        if proxy_object is not None:
            yield proxy_object
            return
    if (version, kind) in WORKLOAD_KINDS:
        workload = _workload_object(value, WORKLOAD_KINDS[version, kind])
        if workload is not None:
            yield workload
            return
    if kind.endswith("List"):
        item = (None, None) if kind == "List" else (version, kind.removesuffix("List"))
        if isinstance(head.items, list | None):
            yield from _list_objects(head.items or (), "items", item, skipped)
            return
        if kind == "List" or item in KINDS:
            if head.items is msgspec.UNSET:
                return
            raise FieldMismatch("items", "a list", show(head.items), subject=kind)
    skipped[f"{version}/{kind}"] += 1


def _quick_kind(value: object) -> type[Object] | None:
    """The kind of undecoded JSON that begins with it; None if the decoder has to search for it."""
    match = _QUICK_HEAD.match(memoryview(value)) if isinstance(value, msgspec.Raw) else None
    return None if match is None else _KINDS_BY_TEXT.get((match[1], match[2]))


def _list_objects(items: Sequence[object], field: str, default: _Kind, skipped: Counter[str]) -> Iterator[AnyObject]:
    for index, item in enumerate(items):
        try:
            kind = _quick_kind(item)
            if kind is not None:
                yield _struct(item, kind)
            else:
                yield from _objects(item, default, skipped)
        except FieldMismatch as mismatch:
            raise mismatch.inside(f"{field}[{index}]") from None


def _struct(value: object, kind: type[Object]) -> Object:
    """The object, in the namespace ``default`` if it has none and its kind needs one. Raises FieldMismatch."""
    obj = decode_object(value, kind)
    try:
        _check_object(obj)
    except FieldMismatch as mismatch:
        mismatch.subject = object_title(obj)
        raise
    if not isinstance(obj, Node) and not obj.metadata.namespace:
        obj = replace(obj, metadata=replace(obj.metadata, namespace=names.DEFAULT_NAMESPACE))
    if isinstance(obj, Pod) and may_run_proxy(obj):
        return _proxy_pod(value) or obj
    return obj


def _proxy_pod(value: object) -> ProxyPod | None:
    """The Pod with its programs, if these can be read and one of them is a proxy."""
    try:
        return reduce_pod(_decode_leniently(value, ProxyPod))
    except msgspec.ValidationError:
        return None


def _proxy_object(value: object, kind: type[ProxyObject]) -> ProxyObject | None:
    """A DaemonSet or ConfigMap of a node proxy, or a ConfigMap of an overlay; None for others and unreadable ones."""
    try:
        meta = _decode_leniently(value, _Named).metadata
        if kind is ConfigMap and not is_read_config_map(meta.namespace, meta.name):
            return None
        obj = _decode_leniently(value, kind)
    except msgspec.ValidationError:
        return None
    return reduce_daemon_set(obj) if isinstance(obj, DaemonSet) else reduce_config_map(obj)


def _workload_object(value: object, kind: type[WorkloadObject]) -> WorkloadObject | None:
    """None if the object cannot be read or has no name."""
    try:
        obj = _decode_leniently(value, kind)
        # Refuse a lone surrogate, which cannot be printed.
        msgspec.json.encode(obj)
    except (msgspec.MsgspecError, UnicodeError):
        return None
    return normalized(obj) if obj.metadata.name else None


class _Named(msgspec.Struct, frozen=True, gc=False):
    """An object whose other fields may not be needed."""

    metadata: PlainMeta = PlainMeta()


_T = TypeVar("_T", bound=msgspec.Struct)


def _decode_leniently(value: object, kind: type[_T]) -> _T:
    """Raises msgspec.ValidationError."""
    try:
        return msgspec.json.decode(value, type=kind) if isinstance(value, msgspec.Raw) else msgspec.convert(value, kind)
    except (UnicodeDecodeError, RecursionError) as error:
        raise msgspec.ValidationError(str(error)) from None


def _take(path: str, item: object) -> object:
    """An item of a YAML list, reduced to save memory before the kind of the list is known.

    kubectl writes the kind of a list after its items, so that an error is returned, and raised later if the list is
    read. In a list without a kind it is raised at once.
    """
    try:
        head = object_head(item)
        known = head.api_version or "", head.kind or ""
        if known in PROXY_OBJECT_KINDS:
            proxy_object = _proxy_object(item, PROXY_OBJECT_KINDS[known])
            # Keep the kind of a skipped object, which is counted.
            return proxy_object if proxy_object is not None else {"apiVersion": known[0], "kind": known[1]}
        return item if known not in KINDS else _struct(item, KINDS[known])
    except FieldMismatch as mismatch:
        if path.startswith("["):
            raise mismatch.inside(path) from None
        return mismatch


# --- the fields that are read -----------------------------------------------------------------------------------------

# The kind of a document may come last, so that YAML keeps the fields of all kinds.
_WANTED: Final[FieldTree] = reduce(
    lambda one, kind: merge_trees(one, field_tree(kind)) or {},
    (*_STRUCTS, ProxyPod, *_PROXY_STRUCTS, *WORKLOAD_KINDS.values()),
    {"apiVersion": None, "kind": None},
)
_WANTED["items"] = _WANTED


# --- checks of objects ------------------------------------------------------------------------------------------------


_MAX_PORT: Final = 65535
_PORT: Final = f"a port number from 0 to {_MAX_PORT}"
_QUANTITY: Final = "a quantity such as 4, 3920m, 3.92 or 1e3"
_LABEL_VALUE: Final = "a label value: at most 63 letters, digits and inner '-', '_' or '.'"


def _check_object(obj: Object) -> None:
    if not obj.metadata.name:
        raise FieldMismatch("metadata.name", "a name", "nothing")
    match obj:
        case Pod():
            _check_pod(obj)
        case EndpointSlice():
            _check_slice(obj)
        case Service():
            _check_service(obj)
        case Node():
            _check_node(obj)


_ADDRESS: Final = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")
"""Only the form, for speed: an API server has parsed the addresses of real objects."""


def _check_pod(pod: Pod) -> None:
    status = pod.status
    if status.pod_ip and not _ADDRESS.fullmatch(status.pod_ip):
        raise FieldMismatch("status.podIP", "an IP address", show(status.pod_ip))
    for index, pod_ip in enumerate(status.pod_ips or ()):
        # The first address is in both fields.
        if not (pod_ip.ip and pod_ip.ip == status.pod_ip) and not _ADDRESS.fullmatch(pod_ip.ip):
            raise FieldMismatch(f"status.podIPs[{index}].ip", "an IP address", show(pod_ip.ip))
    for field, containers in (("containers", pod.spec.containers), ("initContainers", pod.spec.init_containers)):
        for i, container in enumerate(containers or ()):
            for j, port in enumerate(container.ports or ()):
                if not 0 <= port.container_port <= _MAX_PORT:
                    where = f"spec.{field}[{i}].ports[{j}].containerPort"
                    raise FieldMismatch(where, _PORT, show(port.container_port))


def _check_service(service: Service) -> None:
    for index, port in enumerate(service.spec.ports or ()):
        ports = (("port", port.port), ("targetPort", port.target_port), ("nodePort", port.node_port))
        for field, value in ports:
            if isinstance(value, int) and not 0 <= value <= _MAX_PORT:
                raise FieldMismatch(f"spec.ports[{index}].{field}", _PORT, show(value))


def _check_slice(slice_: EndpointSlice) -> None:
    if slice_.address_type not in ADDRESS_TYPES:
        got = show(slice_.address_type) if slice_.address_type else "nothing"
        raise FieldMismatch("addressType", "IPv4, IPv6 or FQDN", got)
    for index, endpoint in enumerate(slice_.endpoints or ()):
        if endpoint.hints is not None:
            for hint_index, zone in enumerate(endpoint.hints.for_zones or ()):
                _check_zone(zone.name, "endpoints[{}].hints.forZones[{}].name", index, hint_index)


def _check_node(node: Node) -> None:
    _check_zone((node.metadata.labels or {}).get(names.ZONE_LABEL), f"metadata.labels[{names.ZONE_LABEL}]")
    allocatable = node.status.allocatable if node.status is not None else None
    if allocatable is None or allocatable.cpu is None:
        return
    field, cpu = "status.allocatable.cpu", allocatable.cpu
    try:
        amount = parse_quantity(cpu)
    except ValueError:
        raise FieldMismatch(field, _QUANTITY, show(cpu)) from None
    if amount < 0:
        raise FieldMismatch(field, "a quantity that is not negative", show(cpu))


def _check_zone(zone: str | None, field: str, *indices: int) -> None:
    if zone and not _is_label_value(zone):
        raise FieldMismatch(field.format(*indices), _LABEL_VALUE, show(zone))


@lru_cache(maxsize=1024)
def _is_label_value(text: str) -> bool:
    return not any(label_value_problems(text))
