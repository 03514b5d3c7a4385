"""While endpoints come and go as fast as the kernel takes it, each connection goes to one that is there."""

import time
from collections.abc import Sequence
from itertools import cycle
from threading import Event
from typing import Final, NamedTuple

import pytest
from e2e.node_rules import NodeRules
from e2e.nodes import Bed, ask
from tests.proxy.drawn_services import node_service, one_port

from zoneward.proxy.model.node_service import Backend
from zoneward.proxy.ruleset.base_rules import RulesetOptions

SECONDS: Final = 2.0
CLUSTER: Final = "10.96.0.1"
NODE_PORT: Final = 30_000
TURNS: Final[Sequence[tuple[int, ...]]] = [(1,), (1, 2, 3, 4), (4, 5), (5,), (1, 5, 2), (1, 2)]
"""Who is there, in turn. Each time some stay."""
SOURCES: Final = [f"10.1.200.{number}" for number in range(1, 41)]


class Asked(NamedTuple):
    began: float
    ended: float
    answer: str


class Applied(NamedTuple):
    """From some moment between these two on, these are there."""

    began: float
    ended: float
    there: frozenset[str]


def asking(address: str, port: int, enough: Event) -> list[Asked]:
    found = []
    for source in cycle(SOURCES):
        began = time.monotonic()
        try:
            answer = ask(address, port, source=source, limit=5.0).address
        except OSError as error:
            answer = repr(error)
        found.append(Asked(began, time.monotonic(), answer))
        if enough.is_set():
            return found
    raise AssertionError


@pytest.mark.parametrize("affinity", [None, 60], ids=["drawn", "kept"])
@pytest.mark.parametrize("local", [False, True], ids=["cluster", "local"])
def test_no_connection_is_lost_or_goes_to_one_that_is_gone(affinity: int | None, local: bool) -> None:
    """``local``: to a node port, by the external policy Local."""
    with Bed() as bed:
        node = bed.node("here", pods=("10.2.0.0/16",))
        client = node.pod(*SOURCES)
        enough, applied = Event(), []
        with NodeRules(node, options=RulesetOptions()) as rules:
            for turn in cycle(TURNS):
                targets = tuple(Backend(f"10.2.0.{number}", 8080, is_local=True) for number in turn)
                port = one_port(*targets, node_port=NODE_PORT, local_endpoints=targets, affinity_seconds=affinity)
                began = time.monotonic()
                rules.serve([node_service(port, cluster_ip=CLUSTER, external_policy_local=True)])
                applied.append(Applied(began, time.monotonic(), frozenset(each.address for each in targets)))
                if len(applied) == 1:
                    first = began
                    address, number = (node.addresses[0], NODE_PORT) if local else (CLUSTER, 80)
                    asked = client.start(asking, address, number, enough)
                elif began - first > SECONDS and len(applied) > 50:
                    break
        enough.set()
        found = asked.result()
    wrong = [each for each in found if not is_right(each, applied)]
    assert not wrong, f"{len(wrong)} of {len(found)}: {wrong[:3]}"
    # Else this was no test: thousands where nobody else uses the machine.
    assert len(found) > 300


def is_right(asked: Asked, applied: Sequence[Applied]) -> bool:
    """Whether who answered was there at some moment of the connection."""
    ends = [each.ended for each in applied[1:]] + [float("inf")]
    return any(
        asked.answer in each.there and each.began <= asked.ended and asked.began <= end
        for each, end in zip(applied, ends, strict=True)
    )
