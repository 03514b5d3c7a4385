import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
PACKAGES = ROOT / "src" / "zoneward"


def test_every_package_has_a_line() -> None:
    rows = set(re.findall(r"^\| `(\w+)/` \|", PAGE, re.MULTILINE))
    assert rows == {each.parent.name for each in PACKAGES.glob("*/__init__.py")} - {"sample"}


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`([a-z_]+/[a-z_/]*(?:\.py)?)`", PAGE))))
def test_every_path_exists(path: str) -> None:
    # The rooms of a package are named without it, in the line of the package.
    assert (PACKAGES / path).exists() or (ROOT / path).exists() or list(PACKAGES.glob(f"*/{path}"))
