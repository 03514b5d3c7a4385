"""Random documents of a cluster, and all forms in which files may have them."""

import gzip
import json
from collections.abc import Callable, Sequence
from typing import Any

import yaml
from hypothesis import strategies as st

Document = dict[str, Any]
Form = Callable[[Sequence[Document]], bytes]

_TRICKY = st.sampled_from(
    ["", "on", "No", "y", "~", "null", "1", "1e3", "0x1f", "007", "1_000", "12:30", ".5", ".inf", "=", "<<", "-",
     "2024-05-01", "2024-05-01T10:00:00Z", "- a", "a: b", "#", "a #b", "'", '"', "\\", "&a", "*a", "!a", "%", "@",
     "`", "{", "[", "|", ">", "---", "...", "é", "日本", "😀", " a ", "a\nb", "a\n\n b\n", "\t"]
)  # fmt: skip
# A raw U+0085, U+2028 or U+2029 is text in JSON but the end of a line in YAML.
_TEXT = _TRICKY | st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"]), max_size=8)
_ZONE = st.sampled_from(["a", "b", "zone-1", ""])
_PORT = st.integers(0, 65535)
_NAME = st.sampled_from(["cart", "web", "n1", "a.b-c"])
_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=5,
)


def _fields(
    fields: dict[str, st.SearchStrategy[Any]], **required: st.SearchStrategy[Any]
) -> st.SearchStrategy[Document]:
    """The required fields, some of the others, and sometimes an unread one."""
    known = st.fixed_dictionaries(required, optional=fields)
    return st.tuples(st.dictionaries(st.just("other"), _ANYTHING), known).map(lambda pair: pair[0] | pair[1])


def _some(of: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | st.lists(of, max_size=3)


def _metadata(**labels: st.SearchStrategy[str]) -> st.SearchStrategy[Document]:
    texts = st.dictionaries(_TEXT, _TEXT, max_size=3)
    known = st.fixed_dictionaries({}, optional=labels)
    both = st.tuples(texts, known).map(lambda pair: pair[0] | pair[1])
    fields = {"namespace": st.sampled_from(["shop", "", None]), "labels": st.none() | both, "annotations": texts}
    return _fields({**fields, "creationTimestamp": st.none() | st.just("2024-05-01T10:00:00Z")}, name=_NAME)


def _object(version: str, kind: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Document]:
    return _fields(fields, apiVersion=st.just(version), kind=st.just(kind), metadata=_metadata())


_SERVICE_PORT = _fields(
    {"name": _TEXT, "port": _PORT, "targetPort": st.none() | _PORT | _TEXT, "nodePort": st.none() | _PORT}
)
_HINTS = _fields({"forZones": _some(st.fixed_dictionaries({"name": _ZONE}))})
_ENDPOINT = _fields(
    {"addresses": _some(_TEXT), "zone": st.none() | _ZONE, "hints": st.none() | _HINTS, "nodeName": _TEXT}
)
_CONTAINER = _fields({"ports": _some(_fields({"containerPort": _PORT, "name": _TEXT}))})
_CPU = st.sampled_from(["4", "3920m", "1e3", "0.5", 4, 3.92, None])

SERVICES = _object(
    "v1",
    "Service",
    spec=_fields({"selector": st.none() | st.dictionaries(_TEXT, _TEXT, max_size=2), "ports": _some(_SERVICE_PORT)}),
)
NODES = _fields(
    {"status": st.none() | _fields({"allocatable": st.none() | _fields({"cpu": _CPU})})},
    apiVersion=st.just("v1"), kind=st.just("Node"), metadata=_metadata(**{"topology.kubernetes.io/zone": _ZONE}),
)  # fmt: skip
PODS = _object("v1", "Pod", spec=_fields({"nodeName": _TEXT, "containers": _some(_CONTAINER)}), status=st.none())
SLICES = _fields(
    {"endpoints": _some(_ENDPOINT), "ports": _some(_fields({"port": st.none() | _PORT, "name": st.none() | _TEXT}))},
    apiVersion=st.just("discovery.k8s.io/v1"), kind=st.just("EndpointSlice"), metadata=_metadata(),
    addressType=st.sampled_from(["IPv4", "IPv6", "FQDN"]),
)  # fmt: skip
OTHERS = _object("apps/v1", "Deployment", spec=_ANYTHING, items=_ANYTHING) | _object(
    "v1", "Endpoints", subsets=_ANYTHING
)
DOCUMENTS = st.lists(SERVICES | NODES | PODS | SLICES | OTHERS, max_size=5)


def to_list(documents: Sequence[Document]) -> Document:
    """A ``List`` as kubectl makes it: the kind comes after the items."""
    return {"apiVersion": "v1", "items": list(documents), "kind": "List", "metadata": {"resourceVersion": ""}}


def to_json(document: object, *, indent: int | None = None) -> bytes:
    return json.dumps(document, ensure_ascii=False, indent=indent).encode()


def json_in_a_row(documents: Sequence[Document]) -> bytes:
    return b"".join(map(to_json, documents))


def yaml_documents(documents: Sequence[Document]) -> bytes:
    return b"".join(b"---\n" + to_yaml(document) for document in documents)


def to_yaml(document: object) -> bytes:
    """The YAML of PyYAML, without aliases."""

    class Plain(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
            return True

    return yaml.dump(document, Dumper=Plain, allow_unicode=True).encode()


FORMS: dict[str, Form] = {
    "json-in-a-row": json_in_a_row,
    "json-lines": lambda documents: b"".join(to_json(document) + b"\r\n" for document in documents),
    "json-indented": lambda documents: b"\n".join(to_json(document, indent=4) for document in documents),
    "json-separated": lambda documents: b"".join(b"---\n" + to_json(document) + b"\n" for document in documents),
    "json-escaped": lambda documents: b"".join(json.dumps(document).encode() for document in documents),
    "json-list": lambda documents: to_json(to_list(documents)),
    "json-list-of-lists": lambda documents: to_json(to_list([to_list([]), to_list(documents), to_list([])])),
    "json-array": lambda documents: to_json(list(documents)),
    "json-gzip": lambda documents: gzip.compress(json_in_a_row(documents)),
    "json-gzip-members": lambda documents: b"".join(gzip.compress(to_json(document)) for document in documents),
    "json-utf16": lambda documents: json_in_a_row(documents).decode().encode("utf-16"),
    "json-utf16-without-mark": lambda documents: json_in_a_row(documents).decode().encode("utf-16-be"),
    "json-with-mark": lambda documents: b"\xef\xbb\xbf" + json_in_a_row(documents),
    "json-then-yaml": lambda documents: json_in_a_row(documents[:2]) + b"\n" + yaml_documents(documents[2:]),
    "yaml": yaml_documents,
    "yaml-crlf": lambda documents: b"".join(b"--- # next\r\n" + to_json(document) + b"\r\n" for document in documents),
    "yaml-empty-documents": lambda documents: b"---\n# none\n---\n" + yaml_documents(documents) + b"---\n...\n",
    "yaml-of-json": lambda documents: (
        b"# x\n" + b"".join(b"---\n" + to_json(document) + b"\n" for document in documents)
    ),
    "yaml-list": lambda documents: to_yaml(to_list(documents)),
    "yaml-list-of-lists": lambda documents: to_yaml(to_list([to_list([]), to_list(documents), to_list([])])),
    "yaml-array": lambda documents: to_yaml(list(documents)) if documents else b"",
    "yaml-with-alias": lambda documents: (
        b"---\nx: &x {}\nkind: &kind A\napiVersion: *kind\n" + yaml_documents(documents)
    ),
    "yaml-gzip": lambda documents: gzip.compress(yaml_documents(documents)),
    "yaml-utf16": lambda documents: yaml_documents(documents).decode().encode("utf-16"),
    "yaml-with-mark": lambda documents: b"\xef\xbb\xbf" + yaml_documents(documents),
}
