"""Builds HTML from values: everything is escaped, except `Markup`. The result is also well-formed XML.

No library: a page has one builder of elements (ten lines) and a style sheet. Template engines escape for HTML
alone, do not promise XML, and would be one more dependency of the command line.
"""

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from typing import Final

_PARTS: Final = re.compile(r"(?<=[:,_/])")
_HUMPS: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_VOID: Final = frozenset(("br", "input", "link", "meta"))


@dataclass(frozen=True, slots=True)
class Markup:
    """Text that is HTML already."""

    html: str


Content = str | Markup


def tag(name: str, /, *content: Content, **attributes: str) -> Markup:
    """An element. ``class_`` becomes ``class``, ``aria_label`` ``aria-label``."""
    written = "".join(f' {key.rstrip("_").replace("_", "-")}="{_safe(value)}"' for key, value in attributes.items())
    if name in _VOID:
        return Markup(f"<{name}{written} />")
    return Markup(f"<{name}{written}>{joined(content).html}</{name}>")


def joined(content: Iterable[Content], *, between: str = "") -> Markup:
    return Markup(between.join(part.html if isinstance(part, Markup) else _safe(part) for part in content))


def printable(text: str) -> str:
    """Text without characters that HTML and XML cannot hold: control characters and halves of surrogate pairs."""
    return _UNPRINTABLE.sub("\ufffd", text.replace("\n", " ").replace("\t", " "))


def name(text: str) -> Markup:
    """A name from the cluster: isolated in its direction, with possible line breaks between its parts."""
    parts = _PARTS.split(text)
    return tag("bdi", joined(parts if len(parts) > 1 else _HUMPS.split(text), between="<wbr />"))


def fact(title: str, value: str, beside: str = "") -> Markup:
    """A figure of a list of the class ``facts``, with its title above and ``beside`` it something smaller."""
    return tag("div", tag("dt", title), tag("dd", value, *((" ", tag("small", beside)) if beside else ())))


def footer(made_by: str, *more: Content) -> Markup:
    """The last line of a page. ``made_by`` is the command; ``more`` is shown in place of how programs get the same."""
    programs: tuple[Content, ...] = more or (". For programs: ", tag("code", "-o json"), ".")
    return tag("footer", "Made by ", tag("code", made_by), *programs)


@dataclass(frozen=True, slots=True)
class Source:
    """What a page is about: the cluster or files, when they were read (UTC), and by which version of Zoneward."""

    cluster: str
    time: str
    version: str

    def heading(self) -> Markup:
        """The line below the title."""
        return tag("p", tag("strong", tag("bdi", self.cluster)), f", read {self.time}, by Zoneward {self.version}")


def page(title: str, *content: Content, style: str = "", script: str = "") -> str:
    """A whole page that loads nothing, and whose policy forbids it to. ``style`` follows the common one, and the
    ``script`` the content; both without ``<``, ``>`` and ``&``. No other script may run.
    """
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    if script:
        digest = b64encode(sha256(script.encode()).digest()).decode()
        policy += f"; script-src 'sha256-{digest}'"
        content = (*content, tag("script", Markup(script)))
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        # An icon, so that no browser asks a server for one.
        tag("link", rel="icon", href="data:,"),
        tag("title", title),
        tag("style", Markup(_STYLE + style)),
    )
    html = tag("html", head, Markup("\n"), tag("body", tag("main", joined(content, between="\n"))), lang="en")
    return f"<!DOCTYPE html>\n{html.html}\n"


def _safe(text: str) -> str:
    return escape(printable(text))


# Without ">" and "&", which XML and HTML escape differently here.
_STYLE: Final = """
:root { color-scheme: light; --ink: #1b1f24; --soft: #57606a; --line: #d8dee4; --tint: #f6f8fa; }
* { box-sizing: border-box; }
body { margin: 0; background: #fff; color: var(--ink); font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto,
  "Helvetica Neue", Arial, sans-serif; -webkit-text-size-adjust: 100%; }
main { max-width: 1120px; margin: 0 auto; padding: 2rem 1.25rem 3rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .75rem; overflow-wrap: anywhere; }
h2 { font-size: 1.35rem; line-height: 1.25; margin: 2.5rem 0 .25rem; padding-top: 1rem;
  border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.5rem 0 .4rem; }
p { margin: .4rem 0; max-width: 46rem; }
a { color: #0a58a8; }
code { font: .88em ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; overflow-wrap: anywhere; }
nav { margin: 1.25rem 0 0; font-size: .92em; display: flex; flex-wrap: wrap; gap: .1rem 1.1rem; }
small, figcaption, footer { color: var(--soft); }
.facts { display: flex; flex-wrap: wrap; gap: .6rem 2.2rem; margin: 0 0 1rem; }
.facts div { min-width: 0; }
.facts dt { font-size: .8rem; color: var(--soft); }
.facts dd { margin: 0; font-weight: 600; overflow-wrap: anywhere; }
.facts.large dd { font-size: 1.35rem; }
.facts.large dd small { font-weight: 400; font-size: .85rem; }
.facts dd code { font-weight: 400; }
/* A command breaks between its words, and within one only where it must. */
.facts code span { display: inline-block; max-width: 100%; }
.partial { max-width: none; margin: 1rem 0; padding: .8rem 1rem; border: 2px solid #a40e26; border-left-width: 10px;
  background: #fff1f0; color: #6b0a1a; }
.partial strong { font-size: 1.15rem; display: block; letter-spacing: .02em; }
.short { margin: .5rem 0 0; padding-left: 1.2rem; }
.scroll { overflow-x: auto; margin: .5rem 0 1rem; }
:focus-visible { outline: 2px solid #0a58a8; outline-offset: 2px; }
table { border-collapse: separate; border-spacing: 0; font-size: 15px; line-height: 22px;
  font-variant-numeric: tabular-nums; }
th, td { padding: 4px 11px; text-align: right; vertical-align: top; white-space: nowrap; }
thead th, thead td { border-bottom: 2px solid var(--ink); vertical-align: bottom; }
thead th { line-height: 18px; white-space: normal; }
tbody th, tbody td { border-bottom: 1px solid var(--line); }
th:first-child { text-align: left; }
tr th:first-child { position: sticky; left: 0; background: #fff; padding-left: 0; min-width: 7.5rem; max-width: 17rem; }
tbody th { font-weight: 500; white-space: normal; overflow-wrap: break-word; }
tbody th[colspan] { padding-top: .9rem; font-weight: 700; max-width: none; position: static; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 440px), 1fr)); gap: 1.5rem 2.5rem; }
.plots figure { max-width: 660px; }
.pairs { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 235px), 1fr)); gap: 1.25rem 1.5rem; }
figure { margin: .5rem 0; min-width: 0; break-inside: avoid; }
figure svg { display: block; width: 100%; height: auto; }
/* Over the one that is written in each text. */
figure svg text { font-family: inherit !important; }
figure.key { max-width: 330px; }
figcaption { font-size: .85rem; line-height: 1.35; margin-top: .25rem; overflow-wrap: anywhere; }
details { margin: .5rem 0; }
summary { cursor: pointer; color: #0a58a8; }
footer { margin-top: 3rem; padding-top: 1rem; border-top: 1px solid var(--line); font-size: .88rem; }
@media (max-width: 560px) {
  main { padding: 1.25rem .9rem 2rem; }
  h1 { font-size: 1.5rem; }
  th, td { padding: 4px 7px; }
  tr th:first-child { min-width: 6rem; max-width: 8.5rem; }
}
@page { margin: 14mm; }
@media print {
  body { font-size: 10pt; }
  main { max-width: none; padding: 0; }
  nav { display: none; }
  h2, h3 { break-after: avoid; }
  h2 { margin-top: 1.5rem; }
  .scroll { overflow: visible; }
  table { font-size: 8pt; line-height: 1.4; }
  td .small { font-size: 6.5pt; line-height: inherit; }
  tr { break-inside: avoid; }
  th, td { padding: .1rem .35rem; }
  tr th:first-child { position: static; }
  figure svg { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
  .plots { grid-template-columns: 1fr 1fr; }
  .pairs { grid-template-columns: repeat(3, 1fr); }
}
"""
DARK_STYLE: Final = """
:root { color-scheme: light dark; }
@media screen and (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --soft: #9aa4af; --line: #3d444d; --tint: #1c2128; }
  body, tr th:first-child { background: #0d1117; }
  a, summary { color: #6cb6ff; }
  :focus-visible { outline-color: #6cb6ff; }
}
"""
"""For pages that are readable in dark mode: they follow the preference of the reader."""


# --- commands ---------------------------------------------------------------------------------------------------------


COMMANDS_STYLE: Final = """
pre { background: var(--tint); border: 1px solid var(--line); border-radius: 6px; padding: .6rem .8rem; margin: .4rem 0;
  overflow-x: auto; }
pre code { white-space: pre; overflow-wrap: normal; }
button.copy { font: inherit; font-size: .85rem; color: var(--ink); background: var(--tint); border: 1px solid #768390;
  border-radius: 6px; padding: .2rem .7rem; cursor: pointer; }
button.copy[hidden] { display: none; }
"""
COMMANDS_SCRIPT: Final = """
for (const button of document.querySelectorAll("button.copy")) {
  button.hidden = !navigator.clipboard;
  button.addEventListener("click", function () {
    navigator.clipboard.writeText(button.nextElementSibling.textContent).then(function () {
      button.textContent = "Copied";
    });
  });
}
"""


def command_lines(commands: Sequence[str]) -> Iterator[Content]:
    """Without its script the page has no buttons."""
    yield tag("button", "Copy", class_="copy", type="button", hidden="hidden")
    yield tag("pre", tag("code", joined(commands, between="\n")), tabindex="0")
