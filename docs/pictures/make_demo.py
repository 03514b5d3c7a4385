"""Draws demo.svg: what ``make demo`` shows on a terminal, taken from a real one while a zone is out.

``python docs/pictures/make_demo.py`` takes it again, half a minute later. Two runs are never alike in everything;
tests/docs/test_demo_picture.py tells when the screen has become another one.
"""

import fcntl
import os
import pty
import select
import struct
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from rich.console import Console
from rich.style import Style
from rich.text import Text

COLUMNS, LINES = 104, 30
MOMENT = 19
"""Seconds: a zone is out, and it was noticed."""
PATIENCE = 60
CELL, LINE, SIZE, MARGIN = 8.43, 20, 14, 14
"""Of a character: its width, the height of its line, and its font, in pixels."""
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
PAPER, INK, FAINT = "#0d1117", "#c9d1d9", "#8b949e"
COLOURS = {1: "#ff7b72", 2: "#56d364", 3: "#e3b341", 6: "#76e3ea"}
"""By their numbers in a terminal."""


def taken(*, columns: int = COLUMNS, lines: int = LINES, moment: int = MOMENT) -> list[str]:
    """The lines of the screen when so many seconds are over, with their colours."""
    process, terminal = pty.fork()
    if process == 0:
        os.environ.update(TERM="xterm-256color", LC_ALL="C.UTF-8")
        os.environ.pop("NO_COLOR", None)
        os.execv(sys.executable, [sys.executable, "-m", "zoneward", "demo"])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    seen, end = b"", time.monotonic() + PATIENCE
    try:
        while time.monotonic() < end:
            if select.select([terminal], [], [], 0.1)[0]:
                seen += os.read(terminal, 1 << 16)
            whole = seen.rpartition(b"\x1b[J")[0].rpartition(b"\x1b[H")[2].decode(errors="replace")
            screen = [line.rstrip("\r") for line in whole.replace("\x1b[2K", "").split("\n")]
            if f" {moment} of " in screen[0]:
                return screen
        raise SystemExit("the demonstration did not come so far")
    finally:
        os.write(terminal, b"\x03")
        os.waitpid(process, 0)
        os.close(terminal)


def drawing(lines: Sequence[str]) -> str:
    """A picture of a terminal's lines."""
    width, height = round(COLUMNS * CELL + 2 * MARGIN), len(lines) * LINE + 2 * MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"',
        f' role="img" font-family="{FONT}" font-size="{SIZE}" fill="{INK}">',
        "<title>zoneward demo</title>",
        "<desc>The screen of zoneward demo while a zone is out: zones, Services, what was written and why.</desc>",
        f'<rect width="{width}" height="{height}" rx="8" fill="{PAPER}"/>',
    ]
    for number, line in enumerate(lines):
        y = MARGIN + LINE * (number + 0.75)
        parts += [f'<g id="line-{number}">', *runs(Text.from_ansi(line), y), "</g>"]
    return "\n".join((*parts, "</svg>")) + "\n"


def runs(line: Text, y: float) -> Iterator[str]:
    """A text for each part of a line that looks alike, at its place whatever font is found."""
    column = 0
    for segment in line.render(Console(), end=""):
        text, style = segment.text, segment.style or Style()
        fill = COLOURS.get(style.color.number or 0, INK) if style.color else FAINT if style.dim else INK
        if style.reverse:
            position = f'x="{MARGIN + column * CELL:.1f}" y="{y - LINE * 0.75:g}" width="{len(text) * CELL:.1f}"'
            yield f'<rect {position} height="{LINE}" fill="{fill}"/>'
        shown = text.strip()
        if shown:
            start = column + len(text) - len(text.lstrip())
            position = f'x="{MARGIN + start * CELL:.1f}" y="{y:g}" textLength="{len(shown) * CELL:.1f}"'
            look = f'fill="{PAPER if style.reverse else fill}"' + (' font-weight="bold"' if style.bold else "")
            yield f'<text {position} {look} xml:space="preserve">{escape(shown)}</text>'
        column += len(text)


if __name__ == "__main__":
    (Path(__file__).parent / "demo.svg").write_text(drawing(taken()))
