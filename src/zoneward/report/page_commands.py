"""Renders commands on a page: one line each, which scrolls, and a button that copies them."""

from collections.abc import Iterator, Sequence
from typing import Final

from zoneward.report.html import Content, joined, tag

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
