"""Events in two versions of one kind: ``v1``, in which they are kept, and ``events.k8s.io/v1``.

Managed fields stay as they are: each entry says in which version its manager wrote, and names that version's fields.
"""

from typing import Final

from zoneward.sandbox.server.kinds import Object

STORED: Final = "v1"
NEWER: Final = "events.k8s.io/v1"

NEWER_NAMES: Final = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
"""Fields that ``v1`` calls otherwise; all others have one name."""
_STORED_NAMES: Final = {newer: stored for stored, newer in NEWER_NAMES.items()}
_OMITTED: Final = ("reportingController", "reportingInstance")
"""Written by ``v1`` even when they are empty."""
_REQUIRED: Final[Object] = {
    "involvedObject": {},
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
    "reportingComponent": "",
    "reportingInstance": "",
}
_NEWER_REQUIRED: Final[Object] = {
    "eventTime": None,
    "regarding": {},
    "deprecatedSource": {},
    "deprecatedFirstTimestamp": None,
    "deprecatedLastTimestamp": None,
}


def to_newer(event: Object) -> Object:
    """An Event of ``v1`` as one of ``events.k8s.io/v1``; shares its parts."""
    newer = {NEWER_NAMES.get(name, name): value for name, value in event.items()}
    for name in _OMITTED:
        if not newer.get(name):
            newer.pop(name, None)
    return _completed(newer | {"apiVersion": NEWER}, _NEWER_REQUIRED)


def to_stored(event: Object) -> Object:
    """An Event of ``events.k8s.io/v1`` as one of ``v1``; shares its parts."""
    stored = {_STORED_NAMES.get(name, name): value for name, value in event.items()}
    return _completed(stored | {"apiVersion": STORED}, _REQUIRED)


def _completed(event: Object, required: Object) -> Object:
    for name, empty in required.items():
        if event.get(name) is None:
            event[name] = dict(empty) if isinstance(empty, dict) else empty
    return event
