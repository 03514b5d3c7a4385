"""The pages of commands in a real browser: nothing keeps people from reading them, wide or narrow, light or dark."""

import html
import json
import re
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Final

import pytest
from tests.report.test_simulation_page import CHROMIUM

from zoneward.cli.main import run
from zoneward.report.html import page, tag

pytestmark = pytest.mark.slow

BYTES: Final = Path(__file__).parents[2] / "examples" / "measured-bytes.jsonl"
AXE: Final = files("axe_core_python").joinpath("axe.min.js")
PAGES: Final = {
    "advise": ("advise", "-q", "--sample"),
    "plan": ("plan", "--sample", "--without-zone", "eu-central-1a"),
    "compare": ("compare", "--sample"),
    "check": ("check", "--sample"),
    "explain": ("explain", "--sample", "shop/cart"),
    "report": ("report", "-q", "--sample", "--measured", str(BYTES), "--price-per-gb", "0.01USD"),
    "simulate": ("simulate", "-q", "--sample", "--by", "endpoints"),
}
REPORT: Final = (
    "axe.run().then(found => { document.title = 'AXE ' + JSON.stringify(found.violations.flatMap("
    "each => each.nodes.map(node => [each.impact, each.id, node.html]))) })"
)


def violations(text: str, directory: Path, *, width: int, is_dark: bool) -> list[list[str]]:
    """What axe-core finds: impact, rule and element. The page gets leave to run its script."""
    assert CHROMIUM is not None
    without_policy = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    assert without_policy != text
    scripts = f"<script>{AXE.read_text()}</script><script>{REPORT}</script></body>"
    file = directory / "page.html"
    file.write_text(without_policy.replace("</body>", scripts), "utf-8")
    command = [
        *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", f"--window-size={width},900"),
        *(f"--user-data-dir={directory / 'profile'}", "--virtual-time-budget=60000"),
        *(f"--blink-settings=preferredColorScheme={0 if is_dark else 1}", file.as_uri()),
    ]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    title = re.search(r"<title>AXE (.*?)</title>", shown, re.DOTALL)
    assert title is not None, shown[:1000]
    rules: list[list[str]] = json.loads(html.unescape(title[1]))
    return rules


@pytest.mark.parametrize(("width", "is_dark"), [(360, True), (1400, False)])
@pytest.mark.parametrize("command", PAGES)
def test_pages_have_no_accessibility_violations(
    command: str, width: int, is_dark: bool, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert run([*PAGES[command], "-o", "html"]) == 0
    text = capfdbinary.readouterr().out.decode()
    assert violations(text, tmp_path, width=width, is_dark=is_dark) == []


@pytest.mark.parametrize("is_dark", [True, False])
def test_accessibility_test_finds_violations(is_dark: bool, tmp_path: Path) -> None:
    faint = "@media (prefers-color-scheme: dark) { body { background: #000; } .faint { color: #333; } }"
    text = page("Faint", tag("h1", "Faint"), tag("p", "who reads this?", class_="faint"), style=faint)
    rules = {rule for _, rule, _ in violations(text, tmp_path, width=800, is_dark=is_dark)}
    assert ("color-contrast" in rules) == is_dark
