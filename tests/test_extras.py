"""What messages say about installing, until a release: nothing that no index has."""

import re
import tomllib
from pathlib import Path
from typing import get_args

from zoneward import extras

ROOT = Path(__file__).parents[1]


def test_each_extra_is_one_of_the_project_and_its_message_names_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(get_args(extras.Extra)) == set(project["optional-dependencies"])
    assert all(f"[{extra}]" in extras.how_to_install(extra) for extra in get_args(extras.Extra))


def test_no_page_and_no_message_names_a_package_of_an_index() -> None:
    """Only the page about releases does: for the time after one. Delete this test with the release."""
    pages = {*ROOT.glob("docs/*.md"), *ROOT.glob("*.md"), *ROOT.glob("deploy/**/*.md"), *ROOT.glob("src/**/*.py")}
    pages -= {ROOT / "docs" / "releasing.md", ROOT / "src" / "zoneward" / "extras.py"}
    named = re.compile(r"install\s[^`\n]*(?<![/\w.-])zoneward(?![\w-])(?:\[|'|`|\s*$)", re.MULTILINE)
    assert {str(page): matches for page in pages if (matches := named.findall(page.read_text()))} == {}
    assert named.search("`pip install 'zoneward[lab]'`")
    assert named.search("pipx install zoneward\n")
