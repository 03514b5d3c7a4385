"""The documentation site as its readers have it: two versions, built strictly, opened in a browser."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest
from e2e.browser import Tab, browser
from e2e.file_server import served
from release.site_pages import FRONT
from release.source_date import ROOT
from tests.patience import PATIENCE

from release import documentation

AFTER: Final = "docs/after-the-release"
"""A page that the working tree has, and the release has not."""
MOVING: Final = "docs/moving-from-topology-mode.html"
SCREENS: Final = [(1400, False), (1400, True), (360, False), (360, True)]
READ: Final = ["index.html", "docs/explain.html", "search.html?q=trafficDistribution"]
"""With cards, buttons, code, tables, pictures and results of a search."""
_VERSIONS: Final = "document.querySelector('#version')"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of the release 0.1, which is the tree as it is, and of one with a page more."""
    folder = tmp_path_factory.mktemp("site")
    tree = folder / "tree"
    documentation.copy_tree(documentation.WORKING_TREE, tree, ROOT)
    git = ["git", "-c", "user.name=Site", "-c", "user.email=site@site.example", "-C", str(tree)]
    for command in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "-m", "0.1"], ["tag", "v0.1.0"]):
        subprocess.run([*git, *command], check=True, timeout=PATIENCE)
    (tree / f"{AFTER}.md").write_text("# After the release\n\nNew.\n")
    front = tree / FRONT
    front.write_text(front.read_text().replace("docs/glossary\n", f"docs/glossary\n{AFTER}\n"))
    versions = [
        documentation.Version(documentation.DEV, documentation.WORKING_TREE),
        *documentation.released(["v0.1.0"]),
    ]
    documentation.build(versions, folder / "site", environment=os.environ, root=tree)
    return folder / "site"


async def test_pages_are_accessible_and_fit_the_screen(built: Path, tmp_path: Path) -> None:
    with served(built) as address:
        async with browser(tmp_path) as tab:
            for page in READ:
                for width, dark in SCREENS if page == READ[0] else SCREENS[::3]:
                    await tab.show(width=width, dark=dark)
                    await tab.open(f"{address}/dev/{page}")
                    problems = await tab.violations()
                    assert [violation for violation in problems if violation[0] in {"serious", "critical"}] == [], (
                        page,
                        width,
                        dark,
                    )
                    assert await tab.evaluate("document.documentElement.scrollWidth") <= width, page
        assert {request for request in tab.requests if not request.startswith((address, "data:"))} == set()


@pytest.mark.parametrize("from_files", [False, True])
async def test_search_finds_the_page_about_traffic_distribution(from_files: bool, built: Path, tmp_path: Path) -> None:
    with served(built) as address:
        async with browser(tmp_path) as tab:
            await tab.show(width=1400, dark=False)
            await tab.open((built / "dev" / "index.html").as_uri() if from_files else f"{address}/dev/index.html")
            form = "document.querySelector('.sidebar-search-container')"
            await tab.follow(f"{form}.querySelector('input').value = 'trafficDistribution'; {form}.submit()")
            await tab.wait_until("document.querySelector('#search-results p')?.textContent.includes('finished')")
            assert MOVING in await first_results(tab)
    assert all(request.startswith(("data:", address, built.as_uri())) for request in tab.requests)


async def first_results(tab: Tab) -> list[str]:
    links = await tab.evaluate("[...document.querySelectorAll('#search-results li > a')].map(element => element.href)")
    return [path.partition("/dev/")[2].partition("?")[0] for path in links[:5]]


@pytest.mark.parametrize("from_files", [False, True])
async def test_version_menu_opens_the_same_page_of_a_version(from_files: bool, built: Path, tmp_path: Path) -> None:
    with served(built) as address:
        start = built.as_uri() if from_files else address
        async with browser(tmp_path) as tab:
            await tab.show(width=1400, dark=True)
            # The site's own entrance leads to the newest release.
            await tab.open(f"{start}/index.html")
            await tab.wait_until(f"location.href.includes('/0.1/index.html') && {_VERSIONS}?.disabled === false")
            assert await tab.evaluate(f"[...{_VERSIONS}.options].map(element => element.text)") == [
                "dev (not released)",
                "0.1 (newest release)",
            ]
            await tab.open(f"{start}/0.1/docs/why.html")
            assert await tab.evaluate("document.querySelector('.other-version')") is None
            assert await choose(tab, "dev") == f"{start}/dev/docs/why.html"
            assert await tab.evaluate("document.querySelector('.other-version a').href") == f"{start}/0.1/docs/why.html"
            assert await choose(tab, "0.1") == f"{start}/0.1/docs/why.html"
            # A page that the other version does not have.
            await tab.open(f"{start}/dev/{AFTER}.html")
            assert await choose(tab, "0.1") == f"{start}/0.1/index.html"


async def choose(tab: Tab, version: str) -> str:
    """Takes a version from the list. Gives the address where that leads."""
    await tab.follow(f"{_VERSIONS}.value = {version!r}; {_VERSIONS}.dispatchEvent(new Event('change'))")
    where: str = await tab.evaluate("location.href")
    return where


def test_broken_link_is_reported_and_the_site_stays_unchanged(tmp_path: Path) -> None:
    tree, output = tmp_path / "tree", tmp_path / "out"
    shutil.copytree(ROOT / FRONT.parent, tree / FRONT.parent)
    (tree / FRONT).write_text("# Front\n\n[there](../why.md#here)\n")
    subprocess.run(["git", "init", "--quiet", str(tree)], check=True, timeout=PATIENCE)
    output.mkdir()
    (output / "versions.js").touch()
    with pytest.raises(documentation.SiteError) as refused:
        documentation.build([documentation.Version("dev", ".")], output, environment=os.environ, root=tree)
    assert str(refused.value).startswith(
        "dev: index.md:3: WARNING: 'myst' cross-reference target not found: 'docs/why.md"
    )
    assert [path.name for path in output.iterdir()] == ["versions.js"]
