"""Heuristics by name, and what each is like."""

from zoneward.kube import names
from zoneward.routing.algorithms.heuristics import (
    HEURISTICS,
    LOCAL_KEP_TOOL,
    SUBSETTING_ALGORITHMS,
    Heuristic,
    find_heuristic,
)
from zoneward.routing.algorithms.local import local_kep_tool
from zoneward.routing.what_if import WHAT_IF_VALUES


def test_no_setting_of_a_cluster_can_ask_for_what_the_proposals_tool_makes_of_local() -> None:
    assert Heuristic("local-kep-tool", local_kep_tool, balances=True, subsets=True) == LOCAL_KEP_TOOL
    assert LOCAL_KEP_TOOL.name not in {*HEURISTICS, *SUBSETTING_ALGORITHMS, *WHAT_IF_VALUES}
    assert find_heuristic(f"{names.DOMAIN}/{LOCAL_KEP_TOOL.name}") is None
