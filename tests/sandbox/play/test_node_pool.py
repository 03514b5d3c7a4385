"""Nodes know their room, and which addresses their pods have."""

from collections import deque

from tests.sandbox.play.a_world import a_workload, nodes

from zoneward.sandbox.play.node_pool import NodePool, PlayedPod
from zoneward.sandbox.play.play_model import NodeSelection


def a_pod(number: int) -> PlayedPod:
    return PlayedPod(number=number, name=f"cart-{number}", workload=a_workload(cpu=10), template="t")


def test_an_address_is_given_again_only_when_its_pod_is_gone_and_as_late_as_can_be() -> None:
    (node,) = NodePool().add(nodes(1)[0])
    lasting = a_pod(0)
    node.add(lasting)
    node.give_address(lasting)
    there: deque[PlayedPod] = deque()
    given: list[str] = []
    for number in range(1, 1_500):
        pod = a_pod(number)
        node.add(pod)
        node.give_address(pod)
        there.append(pod)
        given.append(pod.address)
        if len(there) == 100:
            node.drop(there.popleft())
    assert lasting.address not in given
    assert all(len(set(given[i : i + 509])) == 509 for i in range(0, len(given) - 509, 100))
    assert len(node.pods) == 100
    assert node.used_cpu == 1_000


def test_nodes_that_are_leaving_are_not_chosen_again() -> None:
    node_pool = NodePool()
    one, other = node_pool.add(nodes(2)[0])
    one.is_leaving = True
    assert node_pool.select_nodes(NodeSelection(zone="a")) == [other]
    assert node_pool.select_nodes(NodeSelection(nodes=("a-1", "a-2", "a-3"))) == [other]
