"""The pictures of the documentation are what the code that decides draws today, and whole."""

import runpy
from pathlib import Path

import pytest

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
SCRIPTS = ("make.py", "make_balanced.py", "make_explain.py")
SCRIPT_OF: dict[str, str] = {}
DRAWN: dict[str, str] = {}
for script in SCRIPTS:
    drawings: dict[str, str] = runpy.run_path(str(PICTURES / script))["drawings"]()
    DRAWN |= drawings
    SCRIPT_OF |= dict.fromkeys(drawings, script)


def test_there_is_a_picture_for_each_drawing_and_no_other() -> None:
    measured = {"demo.svg", "measured-demand.svg", "proxy-changes.svg"}
    assert sorted(path.name for path in PICTURES.glob("*.svg") if path.name not in measured) == sorted(DRAWN)


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_is_what_the_algorithm_does_today(name: str) -> None:
    assert (PICTURES / name).read_text() == DRAWN[name], f"run: python docs/pictures/{SCRIPT_OF[name]}"
