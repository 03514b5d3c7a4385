"""What metrics count of all Services together: the cases ``metric_totals`` of ``slices_packing.json``, and
``services_count_sequence`` of ``traffic_distribution.json``."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest
from tests.vectors.cases import Case, RunIn, load
from tests.vectors.outcomes import check
from tests.vectors.test_slices_packing import LEFT_OUT
from tests.vectors.test_traffic_distribution import LEFT_OUT as LEFT_OUT_OF_DISTRIBUTIONS

from zoneward.controller.sync_counts import SliceTotals, family_totals

COUNTS: Final = [case for case in load("traffic_distribution.json") if case["kind"] == "services_count_sequence"]
CASES: Final = [case for case in load("slices_packing.json") if case["kind"] == "metric_totals"]


def totals(given: Mapping[str, Any]) -> Iterator[dict[str, int]]:
    """After each step. A step says what a Service has by ports, or that it is deleted."""
    assert given["pair"] == ["endpoints", "slices"]
    accounts = SliceTotals()
    for step in given["steps"]:
        for word, value in step.items():
            if word == "delete":
                accounts.drop(("ns", value))
            else:
                groups = [(endpoints, slices) for endpoints, slices in value]
                count = family_totals(groups, max_endpoints=given["max_endpoints_per_slice"])
                accounts.put(("ns", word), {"IPv4": count})
        yield {
            "desired_slices": accounts.desired_slices,
            "actual_slices": accounts.slices,
            "endpoints": accounts.endpoints,
        }


def test_what_another_module_leaves_to_this_one_is_run_here() -> None:
    tables = LEFT_OUT, LEFT_OUT_OF_DISTRIBUTIONS
    left = {id_ for table in tables for id_, why in table.items() if why == RunIn("test_controller_metrics")}
    assert left == {case["id"] for case in (*CASES, *COUNTS)}


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES])
def test_totals_are_kept_as_upstream_keeps_them(case: Case) -> None:
    check({"totals_per_step": list(totals(case["input"]))}, case["expected"])


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in COUNTS])
def test_services_are_counted_by_what_they_ask_for_as_upstream_counts_them(case: Case) -> None:
    """What a value is does not matter there: any word is counted."""
    accounts = SliceTotals()
    for step, expected in zip(case["input"]["steps"], case["expected"]["services_by_value_per_step"], strict=True):
        for word, value in step.items():
            if word == "delete":
                accounts.drop(("ns", value))
            else:
                accounts.put(("ns", value[0]), {}, traffic_distribution=value[1])
        assert accounts.by_traffic_distribution == {asked: len(services) for asked, services in expected.items()}
