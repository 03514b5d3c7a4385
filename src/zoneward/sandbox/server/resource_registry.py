"""The verbs of the API on the store.

Nothing here waits, so that every write is done before the next one begins. Callers may change the dictionaries that
they pass and get, except parts of an object that a write left alone: these are shared.
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

import msgspec

from zoneward.kube.validation import FieldError
from zoneward.sandbox.server import status_errors as errors
from zoneward.sandbox.server.kinds import Kind, Object, changed_metadata_errors
from zoneward.sandbox.server.schema import as_time, decode
from zoneward.sandbox.server.versioned_store import Key, Record, VersionedStore

NAME_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Of generated names: without vowels and what looks alike, so that no words come out."""
_SUFFIX: Final = 5
_FIXED: Final = ("creationTimestamp", "deletionTimestamp")
"""Metadata that an update cannot change; validation refuses to add it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Options of an update."""

    subresource: str = ""
    """``finalize``: the collector takes the finalizer of a namespace away; the kind is not asked."""
    is_patch: bool = False
    """The new object comes from the old one: another UID is an error, not a precondition."""
    is_dry_run: bool = False


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The object in its stored version after a write or a dry run."""

    object: Object
    is_new: bool = False
    is_gone: bool = False
    record: Record | None = None
    """The record of a stored object."""


class Preconditions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What an object must have to be deleted."""

    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """As in ``k8s.io/apimachinery``."""

    grace_period_seconds: int | None = None
    """None: the object's own."""
    preconditions: Preconditions | None = None
    orphan_dependents: bool | None = None
    propagation_policy: str | None = None
    dry_run: list[str] | None = None


DEFAULT_DELETION: Final = DeleteOptions()


class Registry:
    """``now`` returns the time. ``chance`` generates names and UIDs."""

    def __init__(
        self,
        store: VersionedStore,
        kinds: Iterable[Kind],
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        chance: random.Random | None = None,
    ) -> None:
        self.store: Final = store
        self.kinds: Final = {kind.resource: kind for kind in kinds}
        self._now, self._chance = now, chance or random.Random()

    @property
    def now(self) -> datetime:
        return self._now()

    def find(self, plural: str, namespace: str, name: str) -> Object | None:
        record = self.store.get(self.kinds[plural], (namespace, name))
        return None if record is None else record.object()

    def record(self, kind: Kind, namespace: str, name: str) -> Record:
        """Raises StatusError if the object does not exist."""
        record = self.store.get(kind.stored, (namespace, name))
        if record is None:
            raise errors.not_found(kind, name)
        return record

    def get(self, kind: Kind, namespace: str, name: str) -> Object:
        return kind.from_stored(self.record(kind, namespace, name).object())

    # --- creating -----------------------------------------------------------------------------------------------------

    def create(self, kind: Kind, namespace: str, obj: Object, *, is_dry_run: bool = False) -> WriteResult:
        """``obj`` is as `zoneward.sandbox.server.schema` leaves it. Raises StatusError."""
        new = dict(obj)
        metadata = new["metadata"] = dict(new.get("metadata") or {})
        _set_namespace(kind, namespace, metadata)
        if metadata.pop("resourceVersion", None):
            raise errors.internal("resourceVersion should not be set on objects to be created")
        self._check_namespace(kind, namespace, metadata.get("name") or "")
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = self._generated_name(kind, namespace, str(metadata["generateName"]))
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
            metadata.pop(name, None)
        metadata |= {"uid": self._new_uid(), "creationTimestamp": as_time(self.now)}
        if kind.has_generation:
            metadata["generation"] = 1
        kind.default(new)
        new = kind.to_stored(new)
        # Upstream allocates addresses first, and reports no other errors if that fails.
        _raise_errors(kind, new, kind.allocate(new, None))
        kind.prepare_create(new, self.find)
        _raise_errors(kind, new, [*kind.metadata_errors(new), *kind.validate_create(new)])
        key = (namespace, new["metadata"]["name"])
        # As upstream, validate an object before looking up its name.
        if (existing := self.store.get(kind.stored, key)) is not None:
            raise errors.already_exists(kind, key[1], is_ending=existing.is_ending)
        return WriteResult(new, is_new=True, record=None if is_dry_run else self._put(kind, key, new, None))

    def restore(self, kind: Kind, obj: Object) -> Object:
        """Store an object from a file unchanged, with status, UID and addresses; it replaces one of the same name.

        Raises StatusError for an object that the API would refuse.
        """
        new, _ = decode(obj, kind, validation="Ignore")
        metadata = new["metadata"] = dict(new.get("metadata") or {})
        namespace = str(metadata.get("namespace") or "default") if kind.is_namespaced else ""
        _set_namespace(kind, namespace, metadata)
        metadata.setdefault("uid", self._new_uid())
        metadata.setdefault("creationTimestamp", as_time(self.now))
        if kind.has_generation:
            metadata.setdefault("generation", 1)
        kind.default(new)
        if "deletionTimestamp" in metadata and (grace := kind.grace(new, None)):
            # Snapshots have no grace period; without one the next update would delete the object.
            metadata.setdefault("deletionGracePeriodSeconds", grace)
        new, kind = kind.to_stored(new), kind.stored
        # Snapshots have only the fields that Zoneward reads: validate only metadata.
        _raise_errors(kind, new, kind.metadata_errors(new))
        if not metadata.get("name"):
            # Names are generated for new objects only.
            raise errors.invalid(kind, "", [FieldError("FieldValueRequired", "metadata.name", "Required value")])
        key = (namespace, metadata["name"])
        record = self.store.get(kind, key)
        old = None if record is None else record.object()
        _raise_errors(kind, new, kind.restore(new, old))
        self._put(kind, key, new, old)
        return new

    # --- changing -----------------------------------------------------------------------------------------------------

    def update(
        self, kind: Kind, namespace: str, name: str, change: Callable[[Object], Object], write: Write = Write()
    ) -> WriteResult:
        """Replace an object by the result of ``change``, in the version of ``kind``.

        ``change`` must not modify its argument. Raises StatusError, and the errors of ``change``.
        """
        record = self.record(kind, namespace, name)
        stored = record.object()
        old = kind.from_stored(stored)
        new, before = dict(change(old)), old["metadata"]
        metadata = new["metadata"] = dict(new.get("metadata") or {})
        if (named := metadata.get("name") or "") != name:
            raise errors.bad_request(f"the name of the object ({named}) does not match the name on the URL ({name})")
        _set_namespace(kind, namespace, metadata)
        _check_version(kind, metadata, record, name, is_patch=write.is_patch)
        metadata |= {field: before[field] for field in _FIXED if field in before}
        if kind.has_generation:
            metadata["generation"] = before["generation"]
        metadata["uid"] = metadata.get("uid") or record.uid
        if "deletionGracePeriodSeconds" in before:
            metadata.setdefault("deletionGracePeriodSeconds", before["deletionGracePeriodSeconds"])
        kind.default(new, old)
        return self._store_update(kind, (namespace, name), kind.to_stored(new), stored, write)

    def _store_update(self, kind: Kind, key: Key, new: Object, old: Object, write: Write) -> WriteResult:
        version = old["metadata"]["resourceVersion"]
        if not write.subresource:
            _raise_errors(kind, new, kind.allocate(new, old))
        wrong: Iterable[FieldError] = ()
        if write.subresource == "status":
            new["spec"] = old["spec"]
            wrong = kind.validate_status(new)
        elif not write.subresource:
            kind.prepare_update(new, old, self.find)
            if kind.is_new_generation(new, old):
                new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
            wrong = kind.validate_update(new, old)
        new["metadata"]["resourceVersion"] = version
        _raise_errors(kind, new, [*changed_metadata_errors(new, old), *wrong])
        if new == old or write.is_dry_run:
            return WriteResult(new)
        metadata = new["metadata"]
        is_ending = "deletionTimestamp" in metadata and not metadata.get("deletionGracePeriodSeconds")
        if is_ending and not kind.holds(new):
            # The last finalizer is gone. The answer has the version before the deletion.
            self._delete(kind, key, new, old)
            return WriteResult(new | {"metadata": metadata | {"resourceVersion": version}}, is_gone=True)
        return WriteResult(new, record=self._put(kind, key, new, old))

    # --- deleting -----------------------------------------------------------------------------------------------------

    def delete(self, kind: Kind, namespace: str, name: str, options: DeleteOptions = DEFAULT_DELETION) -> WriteResult:
        """Delete an object at once, or after its finalizers, grace period and content. Raises StatusError."""
        record, key = self.record(kind, namespace, name), (namespace, name)
        _check_preconditions(kind, name, record, options.preconditions or Preconditions())
        if name in kind.protected:
            raise errors.forbidden(kind, name, f"this {kind.kind.lower()} may not be deleted")
        old = record.object()
        metadata = dict(old["metadata"])
        new = old | {"metadata": metadata}
        grace = kind.grace(old, options.grace_period_seconds)
        is_waiting = bool(grace) or kind.holds(old)
        is_news = "deletionTimestamp" not in metadata or grace < metadata.get("deletionGracePeriodSeconds", 0)
        if (is_news and is_waiting) or (kind.is_graceful and not is_waiting):
            if "generation" in metadata and "deletionTimestamp" not in metadata:
                metadata["generation"] += 1
            end = as_time(self.now + timedelta(seconds=grace))
            metadata |= {"deletionTimestamp": end, "deletionGracePeriodSeconds": grace}
            kind.begin_to_end(new)
        if not is_waiting:
            if not options.dry_run:
                self._delete(kind, key, new, old)
            return WriteResult(new, is_gone=True)
        if new != old and not options.dry_run:
            self._put(kind, key, new, old)
        return WriteResult(new)

    # --- within -------------------------------------------------------------------------------------------------------

    def _put(self, kind: Kind, key: Key, new: Object, old: Object | None) -> Record:
        kind.on_stored(new, old)
        return self.store.put(kind.stored, key, new)

    def _delete(self, kind: Kind, key: Key, last: Object, old: Object) -> None:
        kind.on_stored(None, old)
        self.store.delete(kind.stored, key, last)

    def _check_namespace(self, kind: Kind, namespace: str, name: str) -> None:
        if not kind.is_namespaced:
            return
        record = self.store.get(self.kinds["namespaces"], ("", namespace))
        if record is None:
            raise errors.not_found(self.kinds["namespaces"], namespace)
        if record.is_ending:
            problem = f"unable to create new content in namespace {namespace} because it is being terminated"
            refusal = errors.forbidden(kind, name, problem)
            cause = {"reason": "NamespaceTerminating", "message": f"namespace {namespace} is being terminated"}
            refusal.details = (refusal.details or {}) | {"causes": [cause | {"field": "metadata.namespace"}]}
            raise refusal

    def _new_uid(self) -> str:
        return str(UUID(int=self._chance.getrandbits(128), version=4))

    def _generated_name(self, kind: Kind, namespace: str, prefix: str) -> str:
        while True:
            name = prefix[: 63 - _SUFFIX] + "".join(self._chance.choices(NAME_ALPHABET, k=_SUFFIX))
            if self.store.get(kind.stored, (namespace, name)) is None:
                return name


def _raise_errors(kind: Kind, new: Object, causes: Iterable[FieldError]) -> None:
    if field_errors := list(causes):
        raise errors.invalid(kind, new["metadata"].get("name") or "", field_errors)


# --- preconditions ----------------------------------------------------------------------------------------------------


def _set_namespace(kind: Kind, namespace: str, metadata: Object) -> None:
    if not kind.is_namespaced:
        metadata.pop("namespace", None)
        return
    if metadata.get("namespace") not in (None, "", namespace):
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    metadata["namespace"] = namespace


def _check_preconditions(kind: Kind, name: str, record: Record, preconditions: Preconditions) -> None:
    """Check UID and version of a deletion. Raises StatusError."""
    for word, wanted, has in (
        ("UID", preconditions.uid, record.uid),
        ("ResourceVersion", preconditions.resource_version, str(record.version)),
    ):
        if wanted not in (None, has):
            problem = f"the {word} in the precondition ({wanted}) does not match the {word} in record ({has})"
            raise errors.conflict(kind, name, problem)


def _check_version(kind: Kind, metadata: Object, record: Record, name: str, *, is_patch: bool) -> None:
    """Check UID and version of an update. Raises StatusError."""
    uid, version = metadata.get("uid"), metadata.get("resourceVersion")
    if uid and uid != record.uid and not is_patch:
        problem = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {record.uid}"
        raise errors.conflict(kind, name, problem)
    if version and version != str(record.version):
        raise errors.modified(kind, name)
    if not version and kind.needs_version:
        problem = "Invalid value: 0: must be specified for an update"
        raise errors.invalid(kind, name, [FieldError("FieldValueInvalid", "metadata.resourceVersion", problem)])
