"""How the condition says whether a Service's traffic distribution is honored, and for which Services."""

import asyncio
from typing import Any, Final, cast

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.properties.random_clusters import examples

from zoneward.client.informer_cache import InformerCache
from zoneward.client.resources import CACHED_RESOURCES, LiveNode, LiveNodeMeta
from zoneward.client.writer import Writer
from zoneward.controller.leader_elector import always_leading
from zoneward.controller.status.honored_condition import (
    HonoredCondition,
    HonoredReason,
    honored_condition,
    planned_reason,
    revision_of,
)
from zoneward.controller.status.node_proxies import ABSENT_AFTER, NodeProxies
from zoneward.controller.status.status_writer import StatusWriter, are_equal, have_equal_meaning
from zoneward.controller.sync.endpointslice_tracker import EndpointSliceTracker
from zoneward.kube import names
from zoneward.kube.leases import LEASE_DURATION, ProgrammedReport, build_proxy_lease
from zoneward.kube.objects import Condition, EndpointSlice, ObjectMeta, Service, ServicePort, ServiceSpec, ServiceStatus
from zoneward.routing.service_events import find_condition

ACCEPTED = Condition(type=names.ACCEPTED_CONDITION, status="True", reason="Accepted")
PROGRAMMED = Condition(
    type=names.PROGRAMMED_CONDITION, status="True", reason="Enabled", message="Hints/PreferSameZone: 9 endpoints: fine"
)
SAME = "Hints/PreferSameZone"
ON = (ACCEPTED, PROGRAMMED)
OFF = (ACCEPTED, replace(PROGRAMMED, status="False", reason="OneZone"))
UNKNOWN = (
    replace(ACCEPTED, status="False", reason="UnknownValue", message="x"),
    replace(PROGRAMMED, status="False", reason="UnknownValue", message="spec.trafficDistribution: 'x' is not known"),
)
CART = Service(
    metadata=ObjectMeta(name="cart", namespace="shop", uid="u-1", resource_version="7"),
    spec=ServiceSpec(
        traffic_distribution="PreferSameZone", selector={"a": "1", "b": "2"}, ports=(ServicePort(port=80),)
    ),
)


def test_a_revision_depends_on_the_request_only() -> None:
    revision = revision_of(CART, ON, SAME)
    assert len(revision) == 8
    written = replace(
        CART,
        metadata=replace(CART.metadata, resource_version="9", annotations={"other": "1"}),
        spec=replace(CART.spec, selector={"b": "2", "a": "1"}),
        status=ServiceStatus(conditions=ON),
    )
    assert revision_of(written, (ACCEPTED, replace(PROGRAMMED, message="10 endpoints")), SAME) == revision
    others = {
        revision_of(CART, OFF, SAME),
        revision_of(replace(CART, metadata=replace(CART.metadata, uid="u-2")), ON, SAME),
        revision_of(replace(CART, spec=replace(CART.spec, traffic_distribution="PreferSameNode")), ON, SAME),
        revision_of(replace(CART, spec=replace(CART.spec, ports=(ServicePort(port=81),))), ON, SAME),
        revision_of(
            replace(CART, metadata=replace(CART.metadata, annotations={names.TOPOLOGY_MODE_ANNOTATION: ""})), ON, SAME
        ),
        revision_of(
            replace(CART, metadata=replace(CART.metadata, annotations={names.MAX_OVERLOAD_ANNOTATION: "0.1"})), ON, SAME
        ),
        revision_of(CART, ON, "Hints/Other"),
    }
    assert revision not in others
    assert len(others) == 7


def test_the_condition_has_a_status_reason_and_message() -> None:
    def said(
        reason: HonoredReason,
        planned: tuple[Condition, ...] = ON,
        *,
        requested: str | None = SAME,
        **more: object,
    ) -> tuple[str, str, str]:
        result = honored_condition(reason, planned, "0123abcd", requested, **more)  # type: ignore[arg-type]
        assert result.type == names.HONORED_CONDITION
        return result.status, result.reason, result.message

    for planned, reason in ((ON, "PROGRAMMING"), (OFF, "NOT_PROGRAMMED"), ((UNKNOWN[0], PROGRAMMED), "NOT_ACCEPTED")):
        assert planned_reason(planned) is HonoredReason[reason]
    start = "Hints/PreferSameZone: revision 0123abcd"
    assert said(HonoredReason.PROGRAMMING) == ("Unknown", "Programming", f"{start} is being programmed on the nodes")
    assert said(HonoredReason.PROGRAMMED, nodes=1) == ("True", "Programmed", f"{start} is programmed on 1 node")
    behind = ["n1", "n2", "n3", "n4"]
    words = f"{start} is programmed on 8 of 12 nodes; waiting for n1, n2, n3, ..."
    assert said(HonoredReason.NODES_BEHIND, nodes=12, behind=behind) == ("False", "NodesBehind", words)
    words = f"{start} is programmed on 0 of 1 node; waiting for n1"
    assert said(HonoredReason.NODES_BEHIND, nodes=1, behind=["n1"]) == ("False", "NodesBehind", words)
    assert said(HonoredReason.NOT_PROGRAMMED, OFF) == ("False", "NotProgrammed", f"{start}: OneZone")
    assert said(HonoredReason.NOT_ACCEPTED, UNKNOWN, requested=None) == (
        "False",
        "NotAccepted",
        "revision 0123abcd: UnknownValue",
    )


def test_the_nodes_in_the_message_do_not_change_the_meaning() -> None:
    detailed = honored_condition(HonoredReason.PROGRAMMED, ON, "0123abcd", SAME, nodes=12)
    one, other = (
        honored_condition(HonoredReason.NODES_BEHIND, ON, "0123abcd", SAME, nodes=12, behind=behind)
        for behind in (["n1", "n2"], ["n2"])
    )
    assert have_equal_meaning((one,), (other,))
    assert not are_equal((one,), (other,))
    assert not have_equal_meaning((one,), (detailed,))


# --- Nothing is ever reported as honored that a live node does not have -----------------------------------------------


NODES: Final = ("n1", "n2", "n3")
SERVICES: Final = ("cart", "wishlist")
PLANNED: Final = (
    Condition(type=names.ACCEPTED_CONDITION, status="True", reason="Accepted"),
    Condition(type=names.PROGRAMMED_CONDITION, status="True", reason="Enabled", message="Hints/PreferSameZone: 9"),
)
VALUES: Final = ("PreferSameZone", "PreferSameNode")


class World:
    """A cluster whose time and versions a test counts, with a controller's cache that may lag behind its writes."""

    def __init__(self) -> None:
        self.now, self.present, self.version = 1000.0, 1000.0, 100
        self.cache, self.tracker = InformerCache(), EndpointSliceTracker()
        self.status_writer = StatusWriter(cast(Writer, None), instance="test", clock=lambda: self.now)
        self.proxies = NodeProxies(
            has_node=lambda name: self.cache.nodes.get("", name) is not None, clock=lambda: self.now
        )
        self.honored_condition = HonoredCondition(
            self.proxies,
            cache=self.cache,
            tracker=self.tracker,
            status_writer=self.status_writer,
            leading=always_leading(),
            clock=lambda: self.now,
        )
        self.late: dict[str, EndpointSlice] = {}
        """Slices that were written, and that the cache has not seen yet."""
        self.asked: dict[str, str] = {}
        self.needs: dict[str, tuple[int, int]] = {}
        """The version of a Service when it began to ask for this, and the newest of its slices after the first sync."""
        self.claims: dict[str, tuple[int, int]] = {}
        self.heard: dict[str, float] = {}
        self.honored: dict[str, str] = {}
        """What is asked for by the Services that say that it is honored."""
        for resource in CACHED_RESOURCES:
            self.cache.store(resource).retain_only(set())
        self.proxies.leases.retain_only(set())
        for node in NODES:
            self.node(node)

    def next(self) -> int:
        self.version += 1
        return self.version

    # --- what happens -------------------------------------------------------------------------------------------------

    def node(self, name: str) -> None:
        node = self.cache.nodes.get("", name)
        if node is None:
            self.cache.nodes.put(LiveNode(metadata=LiveNodeMeta(name=name, resource_version=str(self.next()))))
        else:
            self.cache.nodes.delete(replace(node, metadata=replace(node.metadata, resource_version=str(self.next()))))

    def ask(self, name: str, value: str) -> None:
        """A Service is written, with this wish or, as a status is, without a new one; and it is synced."""
        version = self.next()
        service = Service(
            metadata=ObjectMeta(name=name, namespace="shop", uid=name, resource_version=str(version)),
            spec=ServiceSpec(cluster_ip="10.0.0.1", traffic_distribution=value),
        )
        self.cache.services.put(service)
        is_new = self.asked.get(name) != value
        self.asked[name] = value
        if is_new:
            self.write(name)
            self.needs[name] = version, self.version
        self.sync(name)

    def write(self, name: str) -> None:
        """A slice is written; the cache sees it when it does."""
        labels = {names.SERVICE_NAME_LABEL: name}
        metadata = ObjectMeta(
            name=name, namespace="shop", uid=f"slice of {name}", labels=labels, resource_version=str(self.next())
        )
        self.late[name] = EndpointSlice(metadata=metadata, address_type="IPv4")
        self.tracker.written(self.late[name])

    def sync(self, name: str) -> None:
        service = self.cache.services.get("shop", name)
        if service is not None:
            self.status_writer.report(
                service, conditions=self.honored_condition.conditions(service, PLANNED, requested=SAME)
            )

    def see(self, name: str) -> None:
        if name in self.late:
            self.cache.slices.put(self.late.pop(name))

    def claim(self, node: str, services: int, slices: int) -> None:
        """A proxy renews its Lease."""
        self.claims[node], self.heard[node] = (services, slices), self.now
        said = ProgrammedReport(services, slices)
        stamp = f"{self.next():09}"
        lease = build_proxy_lease(node, said, namespace="kube-system", proxy_name="", renewed=stamp, owner=None)
        self.proxies.leases.put(replace(lease, metadata=replace(lease.metadata, resource_version=str(self.version))))

    def wait(self, node: str, seconds: int) -> None:
        """Advance the clock; the node's proxy renews its Lease if it runs."""
        for _ in range(seconds // 30):
            self.now += 30
            if node in self.claims:
                self.claim(node, *self.claims[node])
            self.look()

    def look(self) -> None:
        if any(self.cache.nodes.get("", node) is not None for node in self.claims):
            self.present = self.now
        self.honored_condition.update()
        while self.honored_condition.report(1):
            pass

    # --- what must hold -----------------------------------------------------------------------------------------------

    def says(self, name: str) -> Condition | None:
        service = self.cache.services.get("shop", name)
        status = self.status_writer.as_reported(service).status if service is not None else None
        return find_condition(status.conditions or (), names.HONORED_CONDITION) if status is not None else None

    def check(self) -> None:
        for name in SERVICES:
            said, before = self.says(name), self.honored.pop(name, None)
            if said is None or said.status != "True":
                # Nothing but another wish takes it back, or that nobody is there any more who could honor it.
                assert before is None or before != self.asked[name] or self.is_deserted
                continue
            self.honored[name] = self.asked[name]
            if before == self.asked[name]:
                continue
            # All that are silent at once are not dead.
            assert any(self.cache.nodes.get("", node) is not None for node in self.claims)
            for node in self.live():
                assert all(has >= needed for has, needed in zip(self.claims[node], self.needs[name], strict=True))

    @property
    def is_deserted(self) -> bool:
        return self.now - self.present >= ABSENT_AFTER

    def live(self) -> list[str]:
        return [
            node
            for node, heard in self.heard.items()
            if self.cache.nodes.get("", node) is not None and self.now - heard <= LEASE_DURATION
        ]


async def test_the_message_names_the_reason_of_the_latest_plan() -> None:
    world = World()
    world.claim("n1", 1_000, 1_000)
    world.look()
    service = replace(CART, spec=replace(CART.spec, cluster_ip="10.0.0.1"))
    for reason in ("OneZone", "TooFewEndpoints"):
        planned = ACCEPTED, replace(PROGRAMMED, status="False", reason=reason)
        (*_, condition) = world.honored_condition.conditions(service, planned, requested=SAME)
        assert condition.reason == "NotProgrammed"
        assert condition.message.endswith(f": {reason}")


_SERVICE, _NODE = st.sampled_from(SERVICES), st.sampled_from(NODES)
_NEAR = st.sampled_from([0, 1, -1])
"""How far from what is needed somebody is."""
_HAPPENINGS = st.lists(
    st.tuples(st.just("ask"), _SERVICE, st.sampled_from(VALUES))
    | st.tuples(st.sampled_from(["write", "touch"]), _SERVICE, st.none())
    | st.tuples(st.just("see"), _SERVICE, st.none())
    | st.tuples(st.just("claim"), _NODE, st.tuples(_SERVICE, _NEAR, _NEAR))
    | st.tuples(st.just("claim"), _NODE, st.tuples(_SERVICE, _NEAR, _NEAR))
    | st.tuples(st.just("node"), _NODE, st.none())
    | st.tuples(st.just("wait"), _NODE, st.sampled_from([30, 150, 240, 660])),
    min_size=6,
    max_size=40,
)


@examples(40)
@given(_HAPPENINGS)
def test_nothing_is_honored_that_a_live_node_lacks_and_honored_stays(steps: list[Any]) -> None:
    async def run() -> None:
        world = World()
        for name in SERVICES:
            world.ask(name, VALUES[0])
            world.see(name)
        for what, whom, how in steps:
            if what == "ask":
                world.ask(whom, how)
            elif what == "touch" and whom in world.asked:
                world.ask(whom, world.asked[whom])
            elif what == "write" and whom in world.asked:
                world.write(whom)
                world.sync(whom)
            elif what == "see":
                world.see(whom)
            elif what == "node":
                world.node(whom)
            elif what == "claim":
                services, slices = world.needs.get(how[0], (world.version, world.version))
                world.claim(whom, services + how[1], slices + how[2])
            elif what == "wait":
                world.wait(whom, how)
            world.look()
            world.check()
        for name in SERVICES:
            world.see(name)
        for node in NODES:
            if world.cache.nodes.get("", node) is None:
                world.node(node)
            world.claim(node, world.version, world.version)
        for _ in range(2):
            world.look()
            world.check()
        for name in world.asked:
            said = world.says(name)
            assert said is not None
            assert said.status == "True"

    asyncio.run(run())
