"""What the server knows about a kind: names, strategy, table. ``catalog`` has all kinds."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from zoneward.kube.validation import FieldError

Object = dict[str, Any]
"""JSON as a dictionary."""


class ObjectReader(Protocol):
    """The other objects, as strategies read them."""

    @property
    def now(self) -> datetime: ...

    def find(self, plural: str, namespace: str, name: str) -> Object | None:
        """Another object, by its plural (of the core group); never to be changed."""


class Strategy:
    """How objects of a kind are completed and validated, like the strategies in kube-apiserver's registries. This one
    adds and refuses nothing.

    All methods get whole objects whose fields have the right types (the schema has been checked). Those that return
    None change ``new`` in place. ``new`` may share parts with ``old``: what is changed deeper than at the top is copied
    first.
    """

    has_generation: bool = False
    """Whether a new object gets generation 1."""
    is_graceful: bool = False
    """Whether the end of an object is always noted in it, even where it takes no time."""
    protected: frozenset[str] = frozenset()
    """Names of objects that can't be deleted."""

    def default(self, new: Object, old: Object | None = None) -> None:
        """What is absent gets its default, as upstream's ``SetDefaults_*``; again changes nothing. Before all others,
        on each write. What is as in ``old`` need not be looked at.
        """

    def prepare_create(self, new: Object, objects: ObjectReader) -> None:
        """What clients cannot set is dropped (status), what admission adds is added."""

    def prepare_update(self, new: Object, old: Object, objects: ObjectReader) -> None:
        """The status is that of ``old``; what an update cannot change by silence is taken from it."""

    def prepare_status(self, new: Object, old: Object) -> None:
        """All but the status is that of ``old``."""

    def metadata_errors(self, new: Object) -> Iterable[FieldError]:
        return ()

    def metadata_update_errors(self, new: Object, old: Object) -> Iterable[FieldError]:
        return ()

    def validate_create(self, new: Object) -> Iterable[FieldError]:
        return ()

    def validate_update(self, new: Object, old: Object) -> Iterable[FieldError]:
        return ()

    def validate_status(self, new: Object, old: Object) -> Iterable[FieldError]:
        return ()

    def is_new_generation(self, new: Object, old: Object) -> bool:
        """Whether ``metadata.generation`` grows by one."""
        return False

    # --- what is taken from a common stock: addresses and ports -------------------------------------------------------

    def allocate(self, new: Object, old: Object | None) -> Iterable[FieldError]:
        """Takes what the object needs; where that fails, nothing is taken. Before validation."""
        return ()

    def release(self, new: Object | None, old: Object) -> None:
        """Releases what ``old`` has and ``new`` does not."""

    def restore(self, new: Object) -> Iterable[FieldError]:
        """Takes what an object from a file has."""
        return ()

    # --- going --------------------------------------------------------------------------------------------------------

    def grace(self, thing: Object, wanted: int | None) -> int:
        """Seconds that an object may take to end; 0: it goes at once."""
        return 0

    def begin_to_end(self, new: Object) -> None:
        """What else changes when the deletion begins."""

    def holds(self, thing: Object) -> bool:
        """Whether an object waits for something before it goes."""
        return bool(thing["metadata"].get("finalizers"))


Cell = Callable[[Object, datetime], object]
"""The text or number of a column for one object, at a time (ages)."""


@dataclass(frozen=True, slots=True)
class Column:
    """Of the table that ``kubectl get`` prints, which gets objects in their stored version."""

    name: str
    cell: Cell
    is_wide: bool = False
    """Shown only with ``-o wide``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of object, and where the server has it."""

    kind: str
    plural: str
    group: str = ""
    """Empty for the core group."""
    version: str = "v1"
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    is_namespaced: bool = True
    has_status: bool = False
    """Whether it has the status subresource."""
    strategy: Strategy
    fields: Callable[[Object], Mapping[str, str]] = lambda _thing: {}
    """The values that field selectors compare, besides ``metadata.name`` and ``metadata.namespace``."""
    selectable: frozenset[str] = frozenset()
    """The names that field selectors may use; ``fields`` may leave out empty values."""
    is_created_by_update: bool = False
    """Whether PUT creates an object that does not exist."""
    warning: str = ""
    """What each answer about the kind warns of."""
    returns_deleted: bool = False
    """Whether DELETE answers with the object rather than a Status."""
    needs_version: bool = False
    """Whether an update has to say which version it replaces."""
    struct: str = ""
    """The name of its fields in ``schema.json``; empty: its own."""
    stored_as: "Kind | None" = None
    """Another version of the kind, in which its objects are stored."""
    to_stored: Callable[[Object], Object] = lambda thing: thing
    from_stored: Callable[[Object], Object] = lambda thing: thing
    columns: tuple[Column, ...]

    @property
    def stored(self) -> "Kind":
        return self.stored_as or self

    @property
    def api(self) -> str:
        """``v1``, ``discovery.k8s.io/v1``: the ``apiVersion`` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """``services``, ``endpointslices.discovery.k8s.io``: as messages name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def qualified(self) -> str:
        """``Service``, ``EndpointSlice.discovery.k8s.io``."""
        return f"{self.kind}.{self.group}" if self.group else self.kind
