"""Objects that cannot be read, as daemons report them."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from zoneward.client.list_watch_decoder import UnreadableObject
from zoneward.daemon.log import Log
from zoneward.kube.objects import ObjectMeta, Service
from zoneward.routing.events import Event

UNREADABLE: Final = "ObjectUnreadable"


def log_unreadable(log: Log, found: UnreadableObject) -> None:
    log.error(
        "an object cannot be read and is set aside",
        kind=found.resource.kind,
        object="/".join(found.key) if found.namespace else found.name,
        error=found.problem,
    )


def unreadable_event(found: UnreadableObject) -> Event:
    return Event("Warning", UNREADABLE, f"This {found.resource.kind} cannot be read and is set aside: {found.problem}")


def stand_in(found: UnreadableObject) -> Service:
    """All that is known of the object, in the form that `zoneward.daemon.events.Recorder` takes."""
    return Service(
        metadata=ObjectMeta(
            name=found.name, namespace=found.namespace, uid=found.uid, resource_version=found.version or None
        )
    )


def regarding(found: UnreadableObject) -> dict[str, str]:
    return {"api_version": found.resource.api, "kind": found.resource.kind}


def numbers(unreadable: Iterable[UnreadableObject], kinds: Iterable[str]) -> dict[str, int]:
    """How many there are of each kind."""
    counted = Counter(dict.fromkeys(kinds, 0))
    counted.update(each.resource.kind for each in unreadable)
    return dict(counted)
