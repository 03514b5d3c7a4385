"""Several clients at once: nothing is lost, nothing is seen twice, and all see the same in the same order."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.builders.objects import a_lease
from tests.contract.api import Api, Object, path_of, type_and_name

CLIENTS = 4


def at_once(work: Callable[[int], object]) -> list[object]:
    """What each client's work comes to; they have numbers."""
    with ThreadPoolExecutor(CLIENTS) as clients:
        return list(clients.map(work, range(CLIENTS)))


def test_no_update_is_lost(api: Api, namespace: str) -> None:
    lease = api.create(a_lease("counter", namespace=namespace) | {"spec": {"leaseTransitions": 0}})

    def count(_: int) -> None:
        for _ in range(5):
            code = 409
            while code == 409:
                seen = api.read(lease)
                changed = {"spec": {"leaseTransitions": seen["spec"]["leaseTransitions"] + 1}}
                code = api.send("PUT", path_of(lease), seen | changed).code
            assert code == 200

    at_once(count)
    assert api.read(lease)["spec"]["leaseTransitions"] == 5 * CLIENTS


def live(api: Api, namespace: str, client: int) -> None:
    """Three leases of a client's own come, change, and all but the first go."""
    for index in range(3):
        lease = api.create(a_lease(f"lease-{client}-{index}", namespace=namespace))
        api.patch(lease, {"spec": {"holderIdentity": "you"}})
        if index:
            api.delete(lease)


def test_watches_get_all_changes_once_and_in_order(api: Api, namespace: str, leases: str) -> None:
    start = api.get(leases)["metadata"]["resourceVersion"]
    with (
        api.watch(leases, {"resourceVersion": start}) as first,
        api.watch(leases, {"resourceVersion": start}) as second,
    ):
        at_once(lambda client: live(api, namespace, client))
        events = [first.next() for _ in range(8 * CLIENTS)]
        assert [second.next() for _ in events] == events
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(set(versions))
    lives = {
        name: [type_ for type_, name_ in map(type_and_name, events) if name_ == name]
        for _, name in map(type_and_name, events)
    }
    assert len(lives) == 3 * CLIENTS
    for name, types in lives.items():
        assert types == ["ADDED", "MODIFIED"] + (["DELETED"] if not name.endswith("-0") else [])


def test_list_and_watch_know_all_objects(api: Api, namespace: str, leases: str) -> None:
    """Whenever it begins: what the list does not have, the watch from its version brings."""
    with ThreadPoolExecutor(CLIENTS) as clients:
        working = [clients.submit(live, api, namespace, client) for client in range(CLIENTS)]
        listed = api.get(leases)
        known = {lease["metadata"]["name"]: lease for lease in listed["items"]}
        with api.watch(leases, {"resourceVersion": listed["metadata"]["resourceVersion"]}) as watch:
            for thread in working:
                thread.result()
            api.create(a_lease("last", namespace=namespace))
            while "last" not in known:
                event = watch.next()
                lease: Object = event["object"]
                name = lease["metadata"]["name"]
                assert (event["type"] == "ADDED") == (name not in known)
                if event["type"] == "DELETED":
                    del known[name]
                else:
                    known[name] = {key: lease[key] for key in ("metadata", "spec")}
    assert known == {lease["metadata"]["name"]: lease for lease in api.get(leases)["items"]}
