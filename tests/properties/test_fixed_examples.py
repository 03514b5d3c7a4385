"""Examples are the same in every run, whatever ran before."""

import importlib
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st


def drawn() -> list[int]:
    found: list[int] = []
    given(st.integers())(lambda number: found.append(number))()
    return found


def test_a_module_that_is_loaded_meanwhile_changes_no_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = drawn()
    constants = tmp_path / "numbers_of_its_own.py"
    constants.write_text("\n".join(f"N{number} = {number}" for number in range(10_000, 11_000)))
    monkeypatch.syspath_prepend(tmp_path)
    try:
        importlib.import_module(constants.stem)
        assert drawn() == before
    finally:
        sys.modules.pop(constants.stem, None)
