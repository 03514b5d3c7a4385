"""Tests of Kubernetes in three modes: what counts as a regression, and what the document says."""

import re
from pathlib import Path
from typing import Any

import pytest
from cluster.conformance import COMMANDS, DOCUMENT, KnownFailure, read_known, regressions, section, write_section
from cluster.parts import Mode
from cluster.suite import Result, parse_report, read_selection

PASSED = Result("passed", 1.0, 1)
FAILED = Result("failed", 2.0, 2, "timed out")


def test_only_what_passes_with_the_built_in_parts_and_not_with_ours_is_a_regression() -> None:
    results = {
        Mode.BUILT_IN: {"fine": PASSED, "broken": FAILED, "worse": PASSED, "gone": PASSED, "known": PASSED},
        Mode.BOTH: {"fine": PASSED, "broken": FAILED, "worse": FAILED, "known": FAILED},
    }
    known = [KnownFailure("known", (Mode.BOTH,), "a reason"), KnownFailure("worse", (Mode.CONTROLLER,), "a reason")]
    assert regressions(results, known) == ["both: gone: did not run", "both: worse: failed: timed out"]
    # What is said to fail everywhere, and passes with the built-in parts after all, has to pass with ours.
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


def test_a_section_replaces_only_the_one_of_its_selection(tmp_path: Path) -> None:
    document = tmp_path / "document"
    full = "B\n<!-- full: begin -->\n<!-- full: end -->\n"
    document.write_text(f"A\n<!-- short: begin -->\nold\n<!-- short: end -->\n{full}")
    results = {Mode.BUILT_IN: {"[a] | b": PASSED}, Mode.BOTH: {"[a] | b": FAILED}}
    text = section("make it", "today", results, [KnownFailure("[a] | b", (Mode.BOTH,), "because")])
    write_section(document, "short", text)
    written = document.read_text()
    assert "| \\[a] \\| b | passed, 1 s | failed, 2 s |" in written
    assert "- \\[a] \\| b (both): because" in written
    assert "old" not in written
    assert written.startswith("A\n")
    assert written.endswith(f"\n{full}")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_selection_has_expressions_and_a_place_in_the_document(name: str) -> None:
    chosen = read_selection(name)
    for each in (*chosen.focus, *chosen.skip):
        re.compile(each)
    assert chosen.focus
    text = DOCUMENT.read_text()
    assert text.count(f"<!-- {name}: begin -->") == text.count(f"<!-- {name}: end -->") == 1


def test_known_failures_name_modes_of_ours_or_all_and_a_reason() -> None:
    for each in read_known():
        assert each.reason
        assert set(each.modes) <= {Mode.CONTROLLER, Mode.BOTH} or set(each.modes) == set(Mode)
