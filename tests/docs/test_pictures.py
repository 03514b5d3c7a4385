"""The pictures of the documentation are what the code that decides draws today, and whole."""

import runpy
from pathlib import Path

import pytest

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
DRAWN: dict[str, str] = runpy.run_path(str(PICTURES / "make.py"))["drawings"]()


def test_there_is_a_picture_for_each_algorithm_and_no_other() -> None:
    measured = {"demo.svg", "proxy-changes.svg"}
    assert sorted(path.name for path in PICTURES.glob("*.svg") if path.name not in measured) == sorted(DRAWN)


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_is_what_the_algorithm_does_today(name: str) -> None:
    assert (PICTURES / name).read_text() == DRAWN[name], "run: python docs/pictures/make.py"
