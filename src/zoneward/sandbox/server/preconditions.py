"""Whether a write means the object that is there: its name, its namespace, its UID, its version."""

from collections.abc import Mapping
from typing import Any

from zoneward.kube.validation import FieldError
from zoneward.sandbox.server.kinds import Kind
from zoneward.sandbox.server.numerals import parse_uint
from zoneward.sandbox.server.refusals import Refusal, bad_request, conflict, internal, invalid, modified
from zoneward.sandbox.server.store import Record

Object = dict[str, Any]


def check_name(thing: Object, name: str) -> None:
    if (named := thing["metadata"].get("name") or "") != name:
        raise bad_request(f"the name of the object ({named}) does not match the name on the URL ({name})")


def put_into(kind: Kind, namespace: str, metadata: Object) -> None:
    """The namespace of an object is that of the request."""
    if not kind.is_namespaced:
        metadata.pop("namespace", None)
        return
    if metadata.get("namespace") not in (None, "", namespace):
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    metadata["namespace"] = namespace


def check_preconditions(kind: Kind, name: str, record: Record, *, uid: str | None, version: str | None) -> None:
    """A deletion is of the object that it means. Raises Refusal."""
    for word, wanted, has in (
        ("UID", uid, record.uid),
        ("ResourceVersion", version, str(record.version)),
    ):
        if wanted is not None and wanted != has:
            known = "deleted and then recreated" if word == "UID" else "modified"
            message = (
                f'Operation cannot be fulfilled on {kind.qualified} "{name}": the {word} in the precondition '
                f"({wanted}) does not match the {word} in record ({has}). The object might have been {known}"
            )
            raise Refusal(409, "Conflict", message, details={"name": name, "kind": kind.kind})


def _precondition(kind: Kind, metadata: Mapping[str, Any], record: Record, uid: str) -> str:
    where = "/".join(part for part in (kind.place, metadata.get("namespace", ""), metadata["name"]) if part)
    return (
        f"StorageError: invalid object, Code: 4, Key: /registry/{where}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: UID in precondition: {uid}, UID in object meta: {record.uid}"
    )


def check_version(kind: Kind, metadata: Object, record: Record, name: str, *, is_patch: bool) -> None:
    """An update is of the object that it means. Raises Refusal."""
    uid, version = metadata.get("uid"), metadata.get("resourceVersion")
    if uid and uid != record.uid and not is_patch:
        raise conflict(kind, name, _precondition(kind, metadata, record, uid))
    if version:
        try:
            wanted = parse_uint(version)
        except ValueError as error:
            raise internal(str(error)) from None
        if wanted != record.version:
            raise modified(kind, name)
    elif kind.needs_version:
        problem = "Invalid value: 0: must be specified for an update"
        refusal = invalid(kind, name, [FieldError("FieldValueInvalid", "metadata.resourceVersion", problem)])
        # Alone of all, this one names the resource.
        refusal.message = refusal.message.replace(kind.qualified, kind.resource, 1)
        raise refusal
