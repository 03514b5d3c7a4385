"""The pictures of the documentation are what the code that decides draws today, and whole."""

import runpy
from pathlib import Path

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
SCRIPTS = ("make.py", "make_balanced.py", "make_explain.py")
MEASURED = {"demo.svg", "measured-demand.svg", "proxy-changes.svg"}


def test_a_picture_is_what_the_algorithm_does_today_and_there_is_no_other() -> None:
    drawn = set[str]()
    for script in SCRIPTS:
        drawings: dict[str, str] = runpy.run_path(str(PICTURES / script))["drawings"]()
        for name, picture in drawings.items():
            assert (PICTURES / name).read_text() == picture, f"run: python docs/pictures/{script}"
        drawn |= drawings.keys()
    assert {path.name for path in PICTURES.glob("*.svg")} == drawn | MEASURED
