"""How daemons report objects that cannot be read: in the log, as an Event, and as a number."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from zoneward.client.list_watch_decoder import UnreadableObject
from zoneward.daemon.log import Log
from zoneward.kube.objects import ObjectMeta, Service, ServiceEvent

UNREADABLE: Final = "ObjectUnreadable"
"""The reason of the Event."""


def log_unreadable_object(log: Log, found: UnreadableObject) -> None:
    log.error(
        "an object cannot be read and is set aside",
        kind=found.resource.kind,
        object="/".join(found.key) if found.namespace else found.name,
        error=found.problem,
    )


def unreadable_event(found: UnreadableObject) -> ServiceEvent:
    return ServiceEvent(
        "Warning", UNREADABLE, f"This {found.resource.kind} cannot be read and is set aside: {found.problem}"
    )


def reference_to(found: UnreadableObject) -> Service:
    """All that is known of the object, in the form that `zoneward.daemon.event_recorder.EventRecorder` takes."""
    return Service(
        metadata=ObjectMeta(
            name=found.name, namespace=found.namespace, uid=found.uid, resource_version=found.version or None
        )
    )


def involved_kind(found: UnreadableObject) -> dict[str, str]:
    """The kind that the Event regards, as `EventRecorder.record` takes it."""
    return {"api_version": found.resource.api, "kind": found.resource.kind}


def count_by_kind(unreadable: Iterable[UnreadableObject], kinds: Iterable[str]) -> dict[str, int]:
    """How many objects of each kind cannot be read; 0 for the rest of ``kinds``."""
    counted = Counter(dict.fromkeys(kinds, 0))
    counted.update(each.resource.kind for each in unreadable)
    return dict(counted)
