"""The pages of commands in a real browser: nothing keeps people from reading them, wide or narrow, light or dark."""

import html
import json
import re
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import pytest
from tests.builders.new_user_clusters import many_services, write_list
from tests.report.test_simulation_page import CHROMIUM

from zoneward.cli.main import run
from zoneward.report.html import page, tag

pytestmark = pytest.mark.slow

AXE: Final = files("axe_core_python").joinpath("axe.min.js")
PAGES: Final = {
    "advise": ("advise", "-q", "--sample"),
    "plan": ("plan", "--sample", "--without-zone", "eu-central-1a"),
    "compare": ("compare", "--sample"),
    "check": ("check", "--sample"),
    "explain": ("explain", "--sample", "shop/cart"),
    "report": ("report", "-q", "--sample", "--price-per-gb", "0.01USD"),
    "simulate": ("simulate", "-q", "--sample", "--by", "endpoints"),
}
REPORT: Final = (
    "axe.run().then(found => { document.title = 'ANSWER ' + JSON.stringify(found.violations.flatMap("
    "each => each.nodes.map(node => [each.impact, each.id, node.html]))) })"
)


def answer(text: str, script: str, directory: Path, *, width: int, is_dark: bool) -> Any:
    """The JSON that a script puts into the title after ``ANSWER``. The page gets leave to run scripts."""
    assert CHROMIUM is not None
    without_policy = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    assert without_policy != text
    file = directory / "page.html"
    file.write_text(without_policy.replace("</body>", f"{script}</body>"), "utf-8")
    command = [
        *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", f"--window-size={width},900"),
        *(f"--user-data-dir={directory / 'profile'}", "--virtual-time-budget=60000"),
        *(f"--blink-settings=preferredColorScheme={0 if is_dark else 1}", file.as_uri()),
    ]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600).stdout
    title = re.search(r"<title>ANSWER (.*?)</title>", shown, re.DOTALL)
    assert title is not None, shown[:1000]
    return json.loads(html.unescape(title[1]))


def violations(text: str, directory: Path, *, width: int, is_dark: bool) -> list[list[str]]:
    """What axe-core finds: impact, rule and element."""
    script = f"<script>{AXE.read_text()}</script><script>{REPORT}</script>"
    rules: list[list[str]] = answer(text, script, directory, width=width, is_dark=is_dark)
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


USE: Final = """<script>
const rowsNow = () => Array.from(document.querySelectorAll("table.parts"))
  .flatMap(table => Array.from(table.tBodies)).filter(body => body.rows[0].cells[0].textContent !== "TOTAL")
  .filter(body => !body.hidden).map(body => body.rows[0].cells[0].textContent);
// A part that is not laid out yet has an estimated height.
document.querySelectorAll(".part").forEach(part => { part.style.contentVisibility = "visible"; });
const height = document.documentElement.scrollHeight;
const folded = document.querySelectorAll("details.others:not([open])").length;
const all = rowsNow().length;
const heading = Array.from(document.querySelectorAll("button.order")).find(each => each.textContent === "IN ZONE");
heading.click();
const least = rowsNow();
heading.click();
const most = rowsNow();
const search = document.getElementById("search");
search.value = "CART";
search.dispatchEvent(new Event("input"));
document.title = "ANSWER " + JSON.stringify({height, folded, all, least: least.slice(0, 3), most: most.slice(0, 3),
  found: rowsNow().slice(0, 3), said: document.getElementById("found").textContent});
</script>"""


@pytest.mark.parametrize("command", ["plan", "compare"])
def test_rows_can_be_found_and_ordered(command: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run([command, "-q", "--sample", "-o", "html"]) == 0
    used = answer(capfdbinary.readouterr().out.decode(), USE, tmp_path, width=1400, is_dark=False)
    assert used["found"] == ["shop/cart"]
    assert used["said"] == f"1 of {used['all']}"
    assert used["most"][0] != used["least"][0]
    assert "shop/cart" not in used["least"]


@pytest.mark.parametrize("command", ["plan", "compare"])
def test_a_page_of_many_services_is_short_until_it_is_unfolded(
    command: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    file = write_list(many_services(400), tmp_path / "services.json")
    only = ("--only", "none,PreferSameZone") if command == "compare" else ()
    assert run([command, "-q", "-f", str(file), *only, "-o", "html"]) == 0
    text = capfdbinary.readouterr().out.decode()
    used = answer(text, USE, tmp_path, width=1400, is_dark=False)
    assert used["folded"] == 1
    assert used["all"] >= 400
    assert used["height"] < 6_000


ORDER: Final = """<script>
const bodies = () => Array.from(document.querySelector("table.parts").tBodies);
const cellsOf = column => bodies().map(body => body.rows[0].cells[column].textContent);
const headings = Array.from(document.querySelector("table.parts").tHead.rows[0].cells);
function orderedBy(title) {
  const column = headings.findIndex(cell => cell.textContent === title);
  headings[column].querySelector("button").click();
  return cellsOf(column);
}
const before = cellsOf(0);
document.title = "ANSWER " + JSON.stringify({before, byName: orderedBy("SERVICE"), byOverload: orderedBy("WORST"),
  bySaved: orderedBy("SAVED"), byMoney: orderedBy("USD"), byShare: orderedBy("NOW"), after: cellsOf(0)});
</script>"""


def test_services_of_a_report_can_be_ordered(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run([*PAGES["report"], "-o", "html"]) == 0
    used = answer(capfdbinary.readouterr().out.decode(), ORDER, tmp_path, width=1400, is_dark=False)
    assert used["before"][0] == "shop/catalog"
    assert used["byName"] == sorted(used["before"])
    for column in ("byOverload", "bySaved", "byMoney", "byShare"):
        figures = [
            float(match[0]) for text in used[column] if (match := re.search(r"[-+.0-9]+", text.replace(",", "")))
        ]
        assert len(figures) > 1
        assert figures == sorted(figures)
    assert sorted(used["after"]) == used["byName"]
