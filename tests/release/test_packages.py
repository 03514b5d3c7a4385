"""What a package index gets."""

import hashlib
import re
import tomllib
from pathlib import Path

from release.packages import constraints
from trove_classifiers import classifiers

from zoneward import __version__

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_constraints_name_the_wheel_and_the_sdist_after_all_that_they_require(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.whl", "a.tar.gz")]
    for file in files:
        file.write_text(file.name)
    text = constraints("# Head.\nclick==8 \\\n    --hash=sha256:00\n", *files)
    hashes = sorted(hashlib.sha256(file.read_bytes()).hexdigest() for file in files)
    own = f"zoneward=={__version__} \\\n    --hash=sha256:{hashes[0]} \\\n    --hash=sha256:{hashes[1]}\n"
    assert text == "# Head.\nclick==8 \\\n    --hash=sha256:00\n" + own


def test_every_classifier_is_one_that_an_index_knows_and_every_address_is_below_the_home_page() -> None:
    assert set(PROJECT["classifiers"]) <= classifiers
    urls = PROJECT["urls"]
    assert {"Homepage", "Documentation", "Changelog", "Source", "Issues"} == set(urls)
    assert all(url.startswith(urls["Homepage"]) for url in urls.values())
    hooks = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["metadata"]["hooks"]
    for substitution in hooks["fancy-pypi-readme"]["substitutions"]:
        assert re.search(r"https://[\w./-]+?(?=/(?:raw|blob)/)", substitution["replacement"])[0] == urls["Homepage"]  # type: ignore[index]
