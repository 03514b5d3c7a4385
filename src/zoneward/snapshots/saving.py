"""A snapshot as one List, which reads back as the same snapshot: only the kinds and fields that Zoneward reads."""

from collections.abc import Iterator
from typing import Any, Final, Literal

import msgspec

from zoneward.client.resources import READY_SINCE
from zoneward.kube.objects import KINDS, EndpointSlice, Node, Object, Pod, PodMeta, PodStatus, Service
from zoneward.snapshots.cluster_snapshot import Snapshot
from zoneward.snapshots.snapshot_writer import Sink, write_json, write_yaml

Form = Literal["json", "yaml"]
_HEADS: Final = {struct: {"apiVersion": version, "kind": kind} for (version, kind), struct in KINDS.items()}
_NO_POD: Final = Pod(metadata=PodMeta(name="no-pods", namespace="default"), status=PodStatus(phase="Succeeded"))
"""Stands in a file for the knowledge that there are no Pods: without one, endpoints would be taken from the slices. It
is finished and has no labels, so that no Service has it.
"""


def save(snapshot: Snapshot, stream: Sink, *, form: Form = "json") -> None:
    """Write all objects, each kind in the order in which its objects were given."""
    write = write_yaml if form == "yaml" else write_json
    write(documents(snapshot), stream)


def documents(snapshot: Snapshot) -> Iterator[dict[str, Any]]:
    """All objects as documents, one at a time: many do not take more memory than one."""
    kinds: tuple[tuple[type[Object], tuple[Object, ...]], ...] = (
        (Service, snapshot.services),
        (Node, snapshot.nodes),
        (Pod, snapshot.pods or ((_NO_POD,) if snapshot.has_pods else ())),
        (EndpointSlice, snapshot.slices),
    )
    for struct, things in kinds:
        for thing in things:
            document = _HEADS[struct] | msgspec.to_builtins(thing)
            if isinstance(thing, Pod | Node):
                # Those of a live cluster know their version, and Pods some times, which no file is read for.
                document["metadata"].pop("resourceVersion", None)
                document.get("status", {}).pop(READY_SINCE, None)
            yield document
