"""Which proxies live, and what all of them have: by observed renewals and the controller's clock only."""

from msgspec.structs import replace

from zoneward.controller.status.node_proxies import ABSENT_AFTER, COMMON_SILENCE, FIRST_RENEWAL, NodeProxies, Presence
from zoneward.kube.leases import LEASE_DURATION, ProgrammedReport, build_proxy_lease
from zoneward.kube.objects import Lease, ObjectKey


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
        result = self.proxies.groups().get(name)
        return set(result.nodes) if result is not None else set()

    def presence(self, name: str = "") -> Presence | None:
        result = self.proxies.groups().get(name)
        return result.presence if result is not None else None

    def past(self, seconds: float, *renewing: str) -> None:
        """Advance the clock by this time; these nodes renew every minute."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(end, self.now + 30)
            for node in renewing:
                self.renew(node)
            self.proxies.groups()


def a_place(*nodes: str) -> Place:
    """With proxies that were seen to live."""
    scene = Place(*nodes)
    scene.listed()
    for node in nodes:
        scene.renew(node)
    return scene


def test_the_lowest_versions_count_separately_for_each_proxy_name() -> None:
    scene = a_place("n1", "n2", "n3")
    scene.renew("n1", 10, 30)
    scene.renew("n2", 20, 20, but=(("shop", "cart"),))
    scene.renew("n3", 30, 40)
    scene.renew("n3", 5, 6, name="edge")
    seen = scene.proxies.groups()
    own, edge = seen[""], seen["edge"]
    assert (own.services, own.slices, own.unable) == (10, 20, frozenset({("shop", "cart")}))
    assert (edge.services, edge.slices, set(edge.nodes)) == (5, 6, {"n3"})
    assert own.behind(("shop", "other"), 15, 25) == ["n1", "n2"]
    assert own.behind(("shop", "cart"), 1, 1) == ["n2"]


def test_a_silent_proxy_or_one_without_a_node_does_not_count() -> None:
    scene = a_place("n1", "n2")
    scene.past(LEASE_DURATION - 10, "n1")
    assert scene.live() == {"n1", "n2"}
    scene.past(20, "n1")
    assert scene.live() == {"n1"}
    scene.renew("n2")
    assert scene.live() == {"n1", "n2"}
    scene.nodes.discard("n1")
    assert scene.live() == {"n2"}
    scene.nodes.add("n1")
    assert scene.live() == {"n1", "n2"}


def test_if_all_proxies_are_silent_none_counts_as_dead() -> None:
    scene = a_place("n1", "n2", "n3")
    scene.past(10 * LEASE_DURATION)
    assert scene.live() == {"n1", "n2", "n3"}
    # Those who come back first are not all there are.
    scene.past(LEASE_DURATION - COMMON_SILENCE, "n1")
    assert scene.live() == {"n1", "n2", "n3"}
    scene.past(LEASE_DURATION, "n1")
    assert scene.live() == {"n1"}


def test_a_failing_watch_makes_no_proxy_dead() -> None:
    scene = a_place("n1", "n2")
    scene.past(LEASE_DURATION - 30, "n1")
    scene.proxies.watch_failed()
    scene.past(LEASE_DURATION - 30, "n1")
    assert scene.live() == {"n1", "n2"}
    scene.past(60, "n1")
    assert scene.live() == {"n1"}


def test_an_older_lease_counts_until_it_should_have_been_renewed() -> None:
    scene = Place("n1", "n2")
    scene.renew("n1")
    scene.renew("n2")
    scene.listed()
    assert scene.presence() is Presence.UNKNOWN
    assert scene.live() == {"n1", "n2"}
    scene.past(FIRST_RENEWAL + 30, "n2")
    assert scene.presence() is Presence.PRESENT
    assert scene.live() == {"n2"}


def test_leases_without_renewals_do_not_count_in_the_end() -> None:
    scene = Place("n1")
    scene.renew("n1")
    assert scene.presence() is Presence.UNKNOWN
    scene.listed()
    for seconds, presence in ((ABSENT_AFTER - 30, Presence.UNKNOWN), (60, Presence.ABSENT)):
        scene.past(seconds)
        assert scene.presence() is presence
    scene.renew("n1")
    assert scene.presence() is Presence.PRESENT
    # When the last node is deleted, its proxy may come back.
    scene.nodes.clear()
    assert scene.presence() is Presence.UNKNOWN
    scene.past(ABSENT_AFTER - 30)
    assert scene.presence() is Presence.UNKNOWN
    scene.past(60)
    assert scene.presence() is None


def test_a_lease_without_versions_delays_all_services() -> None:
    scene = a_place("n1", "n2")
    lease = a_lease("n2", ProgrammedReport(1, 1))
    scene.put(replace(lease, metadata=replace(lease.metadata, annotations=None)))
    assert scene.proxies.groups()[""].services == -1
