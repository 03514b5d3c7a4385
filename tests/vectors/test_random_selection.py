"""``random_selection.json``: random endpoints through the selection of the real proxy of v1.36.3."""

from collections.abc import Callable, Mapping
from typing import Final

import pytest
from tests.vectors.cases import SELECTION, Case, RunIn, check_complete, load
from tests.vectors.selecting import check_selection

RUN: Final[Mapping[str, Callable[[Case], None]]] = {SELECTION: check_selection}
LEFT_OUT: Final[Mapping[str, RunIn]] = {}
CASES: Final = load("random_selection.json.gz")


def test_every_case_is_run_or_left_out_for_a_reason() -> None:
    check_complete(CASES, RUN, LEFT_OUT)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES if case["kind"] in RUN])
def test_the_selection_among_random_endpoints_is_upstreams(case: Case) -> None:
    RUN[case["kind"]](case)
