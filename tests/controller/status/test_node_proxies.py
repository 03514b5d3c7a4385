"""Which proxies live, and what all of them have: by renewals that are seen, and by no clock but ours."""

from msgspec.structs import replace

from zoneward.controller.status.node_proxies import ABSENT_AFTER, COMMON_SILENCE, FIRST_RENEWAL, NodeProxies, Presence
from zoneward.kube.objects import Lease, ObjectKey
from zoneward.kube.proxy_lease import LEASE_DURATION, ProgrammedReport, build_proxy_lease


def a_lease(node: str, said: ProgrammedReport, *, name: str = "", renewed: str = "x") -> Lease:
    return build_proxy_lease(node, said, namespace="kube-system", proxy_name=name, renewed=renewed, owner=None)


class Place:
    def __init__(self, *nodes: str) -> None:
        self.now, self.nodes, self.version = 1000.0, set(nodes), 0
        self.proxies = NodeProxies(has_node=self.nodes.__contains__, clock=lambda: self.now)
        self.keys: set[ObjectKey] = set()

    def renew(
        self, node: str, services: int = 1, slices: int = 1, *, name: str = "", but: tuple[ObjectKey, ...] = ()
    ) -> None:
        self.put(a_lease(node, ProgrammedReport(services, slices, but), name=name, renewed=f"{self.version:09}"))

    def put(self, lease: Lease) -> None:
        self.version += 1
        lease = replace(lease, metadata=replace(lease.metadata, resource_version=str(self.version)))
        self.keys.add((lease.metadata.namespace, lease.metadata.name))
        self.proxies.leases.put(lease)

    def listed(self) -> None:
        self.proxies.leases.retain_only(self.keys)

    def live(self, name: str = "") -> set[str]:
        found = self.proxies.groups().get(name)
        return set(found.nodes) if found is not None else set()

    def presence(self, name: str = "") -> Presence | None:
        found = self.proxies.groups().get(name)
        return found.presence if found is not None else None

    def past(self, seconds: float, *renewing: str) -> None:
        """So much time goes, in which these renew every minute."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(end, self.now + 30)
            for each in renewing:
                self.renew(each)
            self.proxies.groups()


def a_place(*nodes: str) -> Place:
    """With proxies that were seen to live."""
    place = Place(*nodes)
    place.listed()
    for node in nodes:
        place.renew(node)
    return place


def test_the_least_that_all_have_is_what_counts_and_each_name_counts_for_itself() -> None:
    place = a_place("n1", "n2", "n3")
    place.renew("n1", 10, 30)
    place.renew("n2", 20, 20, but=(("shop", "cart"),))
    place.renew("n3", 30, 40)
    place.renew("n3", 5, 6, name="edge")
    seen = place.proxies.groups()
    own, edge = seen[""], seen["edge"]
    assert (own.services, own.slices, own.unable) == (10, 20, frozenset({("shop", "cart")}))
    assert (edge.services, edge.slices, set(edge.nodes)) == (5, 6, {"n3"})
    assert own.behind(("shop", "other"), 15, 25) == ["n1", "n2"]
    assert own.behind(("shop", "cart"), 1, 1) == ["n2"]


def test_a_proxy_that_is_no_longer_heard_of_or_whose_node_is_gone_counts_no_more_until_it_is_back() -> None:
    place = a_place("n1", "n2")
    place.past(LEASE_DURATION - 10, "n1")
    assert place.live() == {"n1", "n2"}
    place.past(20, "n1")
    assert place.live() == {"n1"}
    place.renew("n2")
    assert place.live() == {"n1", "n2"}
    place.nodes.discard("n1")
    assert place.live() == {"n2"}
    place.nodes.add("n1")
    assert place.live() == {"n1", "n2"}


def test_where_none_is_heard_of_it_is_not_they_who_are_silent() -> None:
    place = a_place("n1", "n2", "n3")
    place.past(10 * LEASE_DURATION)
    assert place.live() == {"n1", "n2", "n3"}
    # Those who come back first are not all there are.
    place.past(LEASE_DURATION - COMMON_SILENCE, "n1")
    assert place.live() == {"n1", "n2", "n3"}
    place.past(LEASE_DURATION, "n1")
    assert place.live() == {"n1"}


def test_a_watch_in_trouble_makes_nobody_dead() -> None:
    place = a_place("n1", "n2")
    place.past(LEASE_DURATION - 30, "n1")
    place.proxies.watch_failed()
    place.past(LEASE_DURATION - 30, "n1")
    assert place.live() == {"n1", "n2"}
    place.past(60, "n1")
    assert place.live() == {"n1"}


def test_a_lease_that_was_there_before_us_counts_until_it_should_have_been_renewed() -> None:
    place = Place("n1", "n2")
    place.renew("n1")
    place.renew("n2")
    place.listed()
    assert place.presence() is Presence.UNKNOWN
    assert place.live() == {"n1", "n2"}
    place.past(FIRST_RENEWAL + 30, "n2")
    assert place.presence() is Presence.PRESENT
    assert place.live() == {"n2"}


def test_leases_that_nobody_renews_are_in_the_end_those_of_nobody() -> None:
    place = Place("n1")
    place.renew("n1")
    assert place.presence() is Presence.UNKNOWN
    place.listed()
    for seconds, presence in ((ABSENT_AFTER - 30, Presence.UNKNOWN), (60, Presence.ABSENT)):
        place.past(seconds)
        assert place.presence() is presence
    place.renew("n1")
    assert place.presence() is Presence.PRESENT
    # Where the last node goes, its proxy may come back.
    place.nodes.clear()
    assert place.presence() is Presence.UNKNOWN
    place.past(ABSENT_AFTER - 30)
    assert place.presence() is Presence.UNKNOWN
    place.past(60)
    assert place.presence() is None


def test_a_lease_that_says_nothing_holds_up_all() -> None:
    place = a_place("n1", "n2")
    lease = a_lease("n2", ProgrammedReport(1, 1))
    place.put(replace(lease, metadata=replace(lease.metadata, annotations=None)))
    assert place.proxies.groups()[""].services == -1
