"""How daemons report objects that cannot be read: in the log and as an Event."""

from typing import Final

from zoneward.client.list_watch_decoder import UnreadableObject
from zoneward.daemon.log import Log
from zoneward.kube.objects import ObjectMeta, Service, ServiceEvent

UNREADABLE: Final = "ObjectUnreadable"
"""The reason of the Event."""


def log_unreadable_object(log: Log, unreadable: UnreadableObject) -> None:
    log.error(
        "an object cannot be read and is set aside",
        kind=unreadable.resource.kind,
        object="/".join(unreadable.key) if unreadable.namespace else unreadable.name,
        error=unreadable.problem,
    )


def unreadable_event(unreadable: UnreadableObject) -> ServiceEvent:
    return ServiceEvent(
        "Warning", UNREADABLE, f"This {unreadable.resource.kind} cannot be read and is set aside: {unreadable.problem}"
    )


def reference_to(unreadable: UnreadableObject) -> Service:
    """All that is known of the object, in the form that `zoneward.daemon.event_recorder.EventRecorder` takes."""
    metadata = ObjectMeta(
        name=unreadable.name,
        namespace=unreadable.namespace,
        uid=unreadable.uid,
        resource_version=unreadable.version or None,
    )
    return Service(metadata=metadata)


def involved_kind(unreadable: UnreadableObject) -> dict[str, str]:
    """The kind that the Event regards, as `EventRecorder.record` takes it."""
    return {"api_version": unreadable.resource.api, "kind": unreadable.resource.kind}
