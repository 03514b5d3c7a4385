"""Tests of Kubernetes in three modes: what counts as a regression, and what the document says."""

import re
from pathlib import Path
from typing import Any

import pytest
from cluster.conformance import (
    DOCUMENT,
    KnownFailure,
    failures,
    read_known,
    regressions,
    result_of_each_test,
    summary,
    write_section,
)
from cluster.parts import Mode
from cluster.suite import Result, parse_report, read_selection

PASSED = Result("passed", 1.0, 1)
FAILED = Result("failed", 2.0, 2, "timed out")


def test_a_regression_passes_with_the_built_in_parts_only() -> None:
    results = {
        Mode.BUILT_IN: {"fine": PASSED, "broken": FAILED, "worse": PASSED, "gone": PASSED, "known": PASSED},
        Mode.BOTH: {"fine": PASSED, "broken": FAILED, "worse": FAILED, "known": FAILED},
    }
    known = [KnownFailure("known", (Mode.BOTH,), "a reason"), KnownFailure("worse", (Mode.CONTROLLER,), "a reason")]
    assert regressions(results, known) == ["both: gone: did not run", "both: worse: failed: timed out"]
    # A failure that is known in every mode excuses nothing once the built-in parts pass.
    everywhere = [KnownFailure("known", tuple(Mode), "a reason")]
    assert "both: known: failed: timed out" in regressions(results, everywhere)


def _spec(text: str, state: str, **more: Any) -> dict[str, Any]:
    about = {"LeafNodeType": "It", "ContainerHierarchyTexts": ["[sig-network] Services"], "LeafNodeText": text}
    return about | {"State": state, "RunTime": 2_500_000_000, "NumAttempts": 1} | more


def test_a_report_has_the_tests_that_were_selected() -> None:
    why = {"Failure": {"Message": "\n  skipped - need 3\n  zones"}}
    specs = [
        _spec("should work", "passed"),
        _spec("should stop", "timedout", NumAttempts=2, Failure={"Message": "too late"}),
        _spec("should skip itself", "skipped", **why),
        _spec("should not be selected", "skipped"),
        _spec("", "passed", LeafNodeType="BeforeSuite"),
    ]
    assert parse_report([{"SpecReports": specs}, {"SpecReports": None}]) == {
        "[sig-network] Services should work": Result("passed", 2.5, 1),
        "[sig-network] Services should stop": Result("failed", 2.5, 2, "too late"),
        "[sig-network] Services should skip itself": Result("skipped", 2.5, 1, "skipped - need 3"),
    }


def test_in_one_mode_every_test_has_to_pass_unless_its_failure_is_known() -> None:
    skipped = Result("skipped", 0.0, 0, "needs 9 zones")
    tests = {"fine": PASSED, "broken": FAILED, "known": FAILED, "skipped": skipped}
    known = [KnownFailure("known", tuple(Mode), "a reason"), KnownFailure("broken", (Mode.CONTROLLER,), "a reason")]
    assert failures(Mode.BOTH, tests, known) == [
        "both: broken: failed: timed out",
        "both: skipped: skipped: needs 9 zones",
    ]
    assert failures(Mode.BOTH, {}, known) == ["both: no test ran"]


def test_a_new_summary_replaces_only_the_old_one(tmp_path: Path) -> None:
    document = tmp_path / "document"
    document.write_text("A\n<!-- table: begin -->\nold\n<!-- table: end -->\nB\n")
    results = {Mode.BUILT_IN: {"[a] | b": PASSED}, Mode.BOTH: {"[a] | b": FAILED}}
    write_section(document, "table", summary("today", results, [KnownFailure("[a] | b", (Mode.BOTH,), "because")]))
    text = document.read_text()
    assert "| failed | 0 | 1 |" in text
    assert "- \\[a] \\| b (both): because" in text
    assert "old" not in text
    assert text.startswith("A\n")
    assert text.endswith("\nB\n")


def test_each_test_has_a_row_with_its_result_in_every_mode() -> None:
    results = {Mode.BUILT_IN: {"[a], b": PASSED, "[a] c": PASSED}, Mode.BOTH: {"[a], b": FAILED}}
    assert result_of_each_test(results).splitlines() == [
        "test,built-in,both",
        "[a] c,passed 1 s,-",
        '"[a], b",passed 1 s,failed 2 s',
    ]


def test_the_document_has_one_table() -> None:
    text = DOCUMENT.read_text()
    assert text.count("<!-- table: begin -->") == text.count("<!-- table: end -->") == 1


@pytest.mark.parametrize("name", ["short", "full"])
def test_every_selection_has_expressions(name: str) -> None:
    chosen = read_selection(name)
    for expression in (*chosen.focus, *chosen.skip):
        re.compile(expression)
    assert chosen.focus


def test_known_failures_have_a_reason_and_name_modes_of_zoneward_or_all() -> None:
    for failure in read_known():
        assert failure.reason
        assert set(failure.modes) <= {Mode.OVERLAY, Mode.CONTROLLER, Mode.BOTH} or set(failure.modes) == set(Mode)
