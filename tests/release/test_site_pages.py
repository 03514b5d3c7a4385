"""The pages of the documentation site: each has its place, and each picture its text."""

import os
import re
from pathlib import Path

import pytest

from release import site_check, site_pages

ROOT = Path(__file__).parents[2]
PAGES = {page.relative_to(ROOT): page.read_text() for page in site_pages.pages_of(ROOT)}
DEVELOP = Path("docs", "develop.md")
"""The index of the pages for developers."""


def entries(page: Path, folder: str) -> list[str]:
    """The pages in the toctrees of ``page``, which Sphinx reads from ``folder``."""
    trees = re.findall(r"^```\{toctree\}\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    lines = [line for tree in trees for line in tree.splitlines() if line and not line.startswith(":")]
    names = (re.sub(r".*<(.*)>", r"\1", line) for line in lines)
    return [os.path.normpath(f"{folder}/{name}") for name in names]


def test_every_page_has_one_place_in_the_navigation() -> None:
    placed = [*entries(site_pages.FRONT, "."), *entries(DEVELOP, "docs")]
    assert sorted(placed) == sorted(str(page.with_suffix("")) for page in PAGES)


@pytest.mark.parametrize("page", [*PAGES, site_pages.FRONT], ids=str)
def test_every_picture_has_a_text_for_those_who_do_not_see_it(page: Path) -> None:
    assert site_pages.pictures_without_text((ROOT / page).read_text()) == []


@pytest.mark.parametrize(
    ("text", "silent"),
    [
        ("![Load of each Pod](a.svg)", 0),
        ("![](a.svg)", 1),
        ("![ ](a.svg 'title')", 1),
        ('<img alt="Load" src="a.svg">', 0),
        ('<img src="a.svg"> and <img src="a.svg" alt="">', 2),
        ("```\n![](a.svg)\n```\n", 0),
    ],
)
def test_a_picture_without_a_text_is_found(text: str, silent: int) -> None:
    assert len(site_pages.pictures_without_text(text)) == silent


def test_links_lead_to_pages_that_show_the_file_of_the_same_version(tmp_path: Path) -> None:
    files = {
        "docs/site/index.md": "[a](../why.md) [readme](../../README.md#x) [other](http://a.example) ![p](../p.svg)",
        "docs/why.md": "[file](../examples/b.yaml) [page](why.md) ![p](p.svg)\n```\n[file](../examples/b.yaml)\n```\n",
        "tests/scenarios/README.md": "[file](one.yaml)",
        **dict.fromkeys(("examples/b.yaml", "tests/scenarios/one.yaml"), "```\nb: 1\n```\n"),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    site_pages.prepare(tmp_path)
    front = (tmp_path / "index.md").read_text()
    assert front == "[a](docs/why.md) [readme](README.md#x) [other](http://a.example) ![p](docs/p.svg)"
    assert not (tmp_path / site_pages.FRONT).exists()
    page, file = (tmp_path / "docs/why.md").read_text(), "b.yaml"
    assert page == files["docs/why.md"].replace("b.yaml)", f"{file}.md)", 1)
    shown = (tmp_path / f"examples/{file}.md").read_text()
    assert "# `examples/b.yaml`" in shown
    assert "````````yaml\n```\nb: 1\n```\n````````\n" in shown
    assert (tmp_path / "tests/scenarios/README.md").read_text() == files["tests/scenarios/README.md"]


def test_what_is_wrong_with_a_built_site_is_found(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "index.html").write_text(
        '<a href="sub/">ok</a> <a href="sub/index.html#there">ok</a> <a href="#here" id="here">ok</a>'
        '<a href="gone.html">1</a> <a href="sub/#gone">2</a> <a href="https://a.example/x">elsewhere</a>'
        '<img src="p.png" alt=""> <script src="//cdn.example/a.js"></script> <link href="https://b.example" rel="x">'
        '<img src="data:image/png;base64,AA" alt="dot">'
    )
    (tmp_path / "sub" / "index.html").write_text('<h1 id="there">There</h1>')
    (tmp_path / "p.png").touch()
    (tmp_path / "a.css").write_text(
        "@font-face { src: url('https://fonts.example/a.woff') } b { background: url(a.png) }"
    )
    result = site_check.check(tmp_path)
    assert sorted(result.problems) == [
        "a.css: needs another host: https://fonts.example/a.woff",
        "index.html: a picture without a text: p.png",
        "index.html: leads nowhere: gone.html",
        "index.html: leads to no place of its page: sub/#gone",
        "index.html: needs another host: //cdn.example/a.js",
        "index.html: needs another host: https://b.example",
    ]
    assert result.external == ["//cdn.example/a.js", "https://a.example/x", "https://b.example"]
