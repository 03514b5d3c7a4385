"""Which versions the documentation site has, and what its pages know of them."""

import json
from pathlib import Path

import pytest
from release.documentation import SiteError, Version, asked_for, build, entrance, list_of_versions, released


def test_the_newest_release_of_each_minor_is_a_version() -> None:
    tags = ["v0.1.0", "v0.1.10", "v0.1.9", "v0.10.0", "v0.9.3", "v1.0.0-rc1", "nightly", "v2"]
    assert released(tags) == [Version("0.10", "v0.10.0"), Version("0.9", "v0.9.3"), Version("0.1", "v0.1.10")]


def test_without_arguments_the_versions_are_the_working_tree_and_the_releases() -> None:
    assert asked_for([], ["v0.1.0"]) == [Version("dev", "."), Version("0.1", "v0.1.0")]
    assert asked_for(["0.1=HEAD~2"], ["v0.2.0"]) == [Version("0.1", "HEAD~2")]


@pytest.mark.parametrize("argument", ["0.1", "0.1=", "=HEAD", "../x=HEAD", ".=HEAD"])
def test_an_argument_that_names_no_version_is_refused(argument: str) -> None:
    with pytest.raises(SiteError, match="expected NAME=REVISION"):
        asked_for([argument], [])


def test_a_folder_that_is_no_site_is_not_replaced_by_one(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(SiteError, match="expected a site or nothing there"):
        build([Version("dev", ".")], tmp_path, environment={})
    assert (tmp_path / "thesis.txt").exists()


def test_pages_know_every_version_its_pages_and_which_is_the_newest_release() -> None:
    versions = [Version("dev", "."), Version("0.2", "v0.2.1"), Version("0.1", "v0.1.0")]
    script = list_of_versions(versions, {"dev": ["b.html", "a.html"], "0.2": ["a.html"], "0.1": []})
    versions = json.loads(script.removeprefix("window.zonewardVersions = ").removesuffix(";\n"))
    assert [(version["name"], version["title"], version["newest"], version["pages"]) for version in versions] == [
        ("dev", "dev (not released)", False, ["a.html", "b.html"]),
        ("0.2", "0.2 (newest release)", True, ["a.html"]),
        ("0.1", "0.1", False, []),
    ]
    assert '"0; url=0.2/index.html"' in entrance("0.2")
