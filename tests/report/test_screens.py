"""The table on a screen: it never has more lines than there are, and what changed is not among what is left out."""

import re
from collections import Counter
from functools import cache

import pytest
from rich.text import Text

from zoneward.kube.object_reader import read_objects
from zoneward.report.plan_table import plan_parts
from zoneward.report.screens import watch_screen
from zoneward.report.terminal_text import Terminal
from zoneward.routing.configuration import Configuration
from zoneward.routing.demand import Demand, compute_demand
from zoneward.sample import cluster
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.plan import ServicePlan, plan_service
from zoneward.snapshots.cluster_snapshot import Snapshot

REVERSE = re.compile(r"\x1b\[(?:[0-9;]*;)?7(?:;[0-9;]*)?m")


@cache
def planned() -> tuple[Demand, tuple[ServicePlan, ...]]:
    snapshot = Snapshot.of(read_objects("the sample", cluster().read_bytes(), skipped=Counter()))
    demand = compute_demand(snapshot.nodes)
    cluster_state = ClusterState(demand=demand, node_zones=snapshot.node_zones, configuration=Configuration())
    services = sorted(snapshot.services, key=lambda service: (service.metadata.namespace, service.metadata.name))
    plans = (
        plan_service(
            service, pods=snapshot.pods_of(service), slices=snapshot.slices_of(service), cluster_state=cluster_state
        )
        for service in services
    )
    return demand, tuple(plans)


def shown(
    *,
    height: int,
    width: int = 110,
    latest: tuple[tuple[str, str], ...] = (),
    marked: tuple[tuple[str, str], ...] = (),
    wide: bool = False,
    color: bool = False,
    status: str = "the status",
) -> list[str]:
    demand, plans = planned()
    return watch_screen(
        plans,
        lambda plans_shown: plan_parts(plans_shown, demand=demand, configuration=Configuration(), wide=wide),
        latest=latest,
        marked=marked,
        status=Text(status),
        terminal=Terminal(width, height, color),
    )


def plain(line: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", line)


def names(lines: list[str]) -> list[str]:
    return [match[0] for line in lines if (match := re.match(r"[a-z-]+/\S+", plain(line)))]


def test_screen_shows_table_and_legend_if_they_fit() -> None:
    lines = shown(height=40)
    assert plain(lines[0]) == "the status"
    assert plain(lines[1]).startswith("Demand: ")
    assert len(names(lines)) == 17
    assert "More: " in lines[-1]


def test_screen_counts_hidden_services() -> None:
    lines = shown(height=12)
    # payments/api has a line for each address family.
    assert names(lines)[:4] == ["kube-system/kube-dns", "kube-system/log-agent", "payments/api", "payments/api"]
    assert len(names(lines)) == 7
    assert plain(lines[-1]) == "and 10 more Services"


def test_latest_changes_come_first_if_not_all_fit() -> None:
    latest = (("shop", "search"), ("shop", "cart"), ("shop", "gone"))
    assert names(shown(height=10, latest=latest))[:3] == ["shop/search", "shop/cart", "kube-system/kube-dns"]
    assert names(shown(height=40, latest=latest)) == names(shown(height=40)), "where all fit, none moves"


@pytest.mark.parametrize("wide", [False, True], ids=["table", "wide"])
@pytest.mark.parametrize("width", [40, 80, 130, 250])
def test_watch_screen_fits_the_terminal(width: int, wide: bool) -> None:
    for height in (*range(1, 16), 20, 29, 45, 70):
        lines = shown(height=height, width=width, wide=wide, status="a long status " * 20)
        assert 1 <= len(lines) <= height
        left_out = re.search(r"and (\d+) more Services", "".join(map(plain, lines)))
        if left_out and height > 12 and width > 200:
            assert len(set(names(lines))) + int(left_out[1]) == 16


@pytest.mark.parametrize("color", [False, True], ids=["plain", "colour"])
@pytest.mark.parametrize("wide", [False, True], ids=["table", "wide"])
def test_marked_services_are_highlighted(wide: bool, color: bool) -> None:
    marked = (("payments", "api"), ("shop", "mail"), ("shop", "other"))
    lines = shown(height=60, width=200, wide=wide, color=color, marked=marked)
    assert names([line for line in lines if REVERSE.search(line)]) == ["payments/api", "payments/api", "shop/mail"]
    assert not any(REVERSE.search(line) for line in shown(height=60, width=200, wide=wide, color=color))
