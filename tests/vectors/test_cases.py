"""The proof of completeness fails where it should: otherwise it proves nothing."""

import pytest
from tests.vectors.cases import Case, RunIn, check_complete

CASES: list[Case] = [{"id": "a-1", "kind": "a"}, {"id": "b-1", "kind": "b"}]


@pytest.mark.parametrize(
    ("run_kinds", "left_out", "fault"),
    [
        pytest.param({"a"}, [], "b-1: neither is kind b run nor", id="neither"),
        pytest.param({"a", "b"}, ["b-1"], "b-1: left out, though kind b is run", id="both"),
        pytest.param({"a", "b"}, ["c-1"], "c-1: left out, but there is no such case", id="unknown-id"),
        pytest.param({"a", "b", "c"}, [], "c: run, but no case is of this kind", id="unknown-kind"),
    ],
)
def test_a_gap_is_named(run_kinds: set[str], left_out: list[str], fault: str) -> None:
    with pytest.raises(AssertionError, match=fault):
        check_complete(CASES, run_kinds, dict.fromkeys(left_out, RunIn("elsewhere")))
