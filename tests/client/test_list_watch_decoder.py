"""An object that cannot be decoded is named, and does not affect the others."""

from typing import Any

import msgspec
import pytest
from tests.client.test_reflector import Play, a_list, an_event

from zoneward.client.api_errors import UnexpectedResponse
from zoneward.client.list_pager import decode_list
from zoneward.client.list_watch_decoder import UnreadableObject, decode_list_page
from zoneward.client.object_store import ObjectStore
from zoneward.client.resources import PODS, SERVICES, LivePod, WatchedResource
from zoneward.client.writer import Writer
from zoneward.controller.context import ControllerContext
from zoneward.controller.controller_configuration import Mode
from zoneward.controller.endpointslice_controller import EndpointSliceController
from zoneward.controller.queue.work_queue import Urgency, WorkItem
from zoneward.kube import names
from zoneward.kube.objects import EndpointSlice, ObjectMeta
from zoneward.routing.configuration import Configuration

BAD = b'{"metadata":{"name":"bad","namespace":"shop","uid":"u","resourceVersion":"%d"},"spec":{"nodeName":7}}'
DEEP = b'{"metadata":{"name":"deep","managedFields":[' + b'{"f:a":' * 1_200 + b"1" + b"}" * 1_200 + b"]}}"


def event(kind: bytes, version: int) -> bytes:
    return b'{"type":"%s","object":%s}' % (kind, BAD % version)


def page(*items: bytes) -> bytes:
    return b'{"metadata":{"resourceVersion":"9"},"items":[%s]}' % b",".join(items)


def test_the_others_of_a_page_are_read_and_it_is_named() -> None:
    good = b'{"metadata":{"name":"good"}}'
    decoded, unreadable = decode_list_page(page(good, BAD % 5, DEEP, b"[]", b'{"metadata":{"name":"\xff"}}'), PODS)
    assert [item.metadata.name for item in decoded.items or ()] == ["good", "deep"]
    assert decoded.metadata.resource_version == "9"
    assert [str(unreadable_object) for unreadable_object in unreadable] == [
        "Pod shop/bad: spec.nodeName: expected a string, got an integer",
        "Pod without a name that can be read: expected a mapping, got a list",
        "Pod without a name that can be read: expected UTF-8 text, got 0xff",
    ]
    assert (unreadable[0].uid, unreadable[0].version) == ("u", "5")
    with pytest.raises(UnexpectedResponse, match=r"expected pods that can be read, got Pod shop/bad: spec\.nodeName"):
        decode_list(page(BAD % 5), PODS)


def test_a_watch_continues_and_the_last_state_stays_until_the_object_is_deleted() -> None:
    play = Play(
        a_list("100", a="90"),
        [event(b"ADDED", 101), an_event("ADDED", "b", "102"), event(b"MODIFIED", 103)],
        [event(b"DELETED", 104), an_event("MODIFIED", "a", "105")],
    )
    assert play.changes == [("added", "a", "90"), ("added", "b", "102"), ("modified", "a", "105")]
    # One list, and every watch begins where the last one ended.
    assert play.versions() == [None, "100", "103", "105"]
    assert not play.store.unreadable


def a_pod(name: str, version: int) -> LivePod:
    return msgspec.convert({"metadata": {"name": name, "resourceVersion": str(version)}}, LivePod)


def unreadable(resource: WatchedResource[Any], name: str, version: int, namespace: str = "") -> UnreadableObject:
    return UnreadableObject(resource=resource, namespace=namespace, name=name, version=str(version), problem="odd")


def test_the_last_good_version_stays_in_force_and_each_bad_one_is_reported_once() -> None:
    reported: list[str] = []
    store = ObjectStore[LivePod](on_unreadable=lambda unreadable_pod: reported.append(unreadable_pod.version))
    store.put(good := a_pod("a", 1))
    for version in (2, 2, 3, 0):
        store.mark_unreadable(unreadable(PODS, "a", version))
    assert reported == ["2", "3"]
    store.put(a_pod("a", 2))
    assert store.get("", "a") is good
    store.put(a_pod("a", 4))
    assert not store.unreadable
    store.mark_unreadable(unreadable(PODS, "a", 5))
    store.mark_unreadable(unreadable(PODS, "a", 6), is_gone=True)
    assert (len(store), len(store.unreadable)) == (0, 0)
    store.mark_unreadable(unreadable(PODS, "b", 7))
    store.retain_only(set())
    assert not store.unreadable


async def test_the_slices_of_a_service_that_cannot_be_read_are_left_alone() -> None:
    link: Any = None  # nothing is read, and nothing written
    controller = EndpointSliceController(
        ControllerContext(connection=link, configuration=Configuration(), mode=Mode.TAKE_OVER, writer=Writer(link))
    )
    labels = {names.SERVICE_NAME_LABEL: "cart", names.MANAGED_BY_LABEL: names.MANAGER}
    metadata = ObjectMeta(name="cart-1", namespace="shop", labels=labels, resource_version="1")
    controller.cache.slices.put(EndpointSlice(metadata=metadata, address_type="IPv4"))
    controller.cache.services.mark_unreadable(unreadable(SERVICES, "cart", 2, "shop"))
    item = WorkItem(("shop", "cart"), 0.0, Urgency.NORMAL)
    result = await controller._reconciler.reconcile(item)
    assert result.writes == 0
