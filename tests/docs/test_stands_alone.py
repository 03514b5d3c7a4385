"""The repository stands alone: nothing in it reads or names what lies outside of it."""

import re
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


@cache
def texts() -> dict[Path, str]:
    """Every text file under version control, by its path in the repository."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [Path(name) for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]
    return {path: (ROOT / path).read_text() for path in paths if b"\0" not in (ROOT / path).read_bytes()}


def test_no_module_climbs_out_of_the_repository() -> None:
    climbs = [
        (path, int(steps))
        for path, text in texts().items()
        for steps in re.findall(r"__file__\)(?:\.resolve\(\))?\.parents\[(\d+)\]", text)
    ]
    assert len(climbs) > 10
    assert [(path, steps) for path, steps in climbs if steps >= len(path.parts)] == []


def test_the_folder_that_lies_beside_it_is_not_named() -> None:
    """Developers keep notes there; a clone has none of them."""
    named = re.compile(r"\bshared" + "/")
    assert [path for path, text in texts().items() if named.search(text)] == []


def test_every_page_that_a_module_names_is_in_it() -> None:
    pages = {path.name for path in texts()}
    named = {
        (path, name)
        for path, text in texts().items()
        if path.suffix == ".py"
        for name in re.findall(r"[\w-]+\.md\b", text)
    }
    assert named
    assert {(path, name) for path, name in named if name not in pages} == set()
