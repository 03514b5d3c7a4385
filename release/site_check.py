"""Checks a built site as its readers get it: its links, its pictures, and that it needs no other host."""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

_LOADS: Final = {"src", "srcset", "data", "poster", "action"}
"""Attributes whose address a browser fetches by itself, or sends something to."""
_CSS_ADDRESS: Final = re.compile(r"(?:url\(\s*[\"']?|@import\s+[\"'])((?:https?:)?//[^\"')]+)")


class Check(NamedTuple):
    """``problems``, each a line; ``external``, the addresses outside of the site that pages link to."""

    problems: list[str]
    external: list[str]


@dataclass(slots=True)
class _Page(HTMLParser):
    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    """Addresses that a reader may follow."""
    loads: list[str] = field(default_factory=list)
    """Addresses that the browser fetches."""
    silent: list[str] = field(default_factory=list)
    """Pictures without a text."""

    def __post_init__(self) -> None:
        HTMLParser.__init__(self)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        for name in given.keys() & _LOADS:
            self.loads.append(given[name])
        if "href" in given:
            (self.links if tag in {"a", "area"} or given.get("rel") in {"next", "prev"} else self.loads).append(
                given["href"]
            )
        if tag == "img" and not given.get("alt", "").strip():
            self.silent.append(given.get("src", ""))
        self.loads += [address for style in (given.get("style", ""),) for address in _CSS_ADDRESS.findall(style)]


def check(site: Path) -> Check:
    """Reads every page and style sheet of a site; no address outside of it is asked for."""
    pages = {path.resolve(): _read(path) for path in sorted(site.rglob("*.html"))}
    problems, external = [], set()
    for path, page in pages.items():
        where = path.relative_to(site.resolve())
        problems += [f"{where}: a picture without a text: {source}" for source in page.silent]
        for address in (*page.links, *page.loads):
            parts = urlsplit(address)
            if parts.scheme in {"data", "mailto"}:
                continue
            if parts.scheme or parts.netloc:
                external.add(address)
                if address in page.loads:
                    problems.append(f"{where}: needs another host: {address}")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                problems.append(f"{where}: leads nowhere: {address}")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
                problems.append(f"{where}: leads to no place of its page: {address}")
    for path in sorted(site.rglob("*.css")):
        for address in _CSS_ADDRESS.findall(path.read_text()):
            problems.append(f"{path.relative_to(site)}: needs another host: {address}")
    return Check(problems, sorted(external))


def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text())
    page.close()
    return page
