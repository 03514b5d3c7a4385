"""The base of every cache: stores by kind, whether all are filled, and unreadable objects."""

from zoneward.client.list_watch_decoder import UnreadableObject
from zoneward.client.resources import NODES, PODS, SERVICES
from zoneward.client.watched_stores import WatchedStores


def test_it_is_synced_when_each_kind_that_is_watched_has_been_listed() -> None:
    stores = WatchedStores((SERVICES, NODES), on_unreadable=lambda _unreadable: None)
    services, nodes, pods = stores.add_store(SERVICES), stores.add_store(NODES), stores.add_store(PODS)
    assert (stores.store(SERVICES), stores.store(PODS)) == (services, pods)
    for store, synced in ((pods, False), (services, False), (services, False), (nodes, True)):
        store.retain_only(set())
        assert stores.synced.is_set() == synced


def test_what_cannot_be_read_is_listed_by_kind_and_name() -> None:
    reported: list[UnreadableObject] = []
    stores = WatchedStores((SERVICES, NODES), on_unreadable=reported.append)
    services, nodes = stores.add_store(SERVICES), stores.add_store(NODES)
    node, late, early = (
        UnreadableObject(resource=resource, namespace=namespace, name=name, version="1", problem="expected a list")
        for resource, namespace, name in ((NODES, "", "a"), (SERVICES, "shop", "z"), (SERVICES, "shop", "b"))
    )
    for store, unreadable in ((nodes, node), (services, late), (services, early)):
        store.mark_unreadable(unreadable)
    assert reported == [node, late, early]
    assert stores.unreadable == (early, late, node)
