"""The page of a simulation: its numbers are those of the value, and it needs nothing else."""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from tests.report.simulated import NASTY, credits_of, means_of, plots_of, simulation_of

from zoneward.lab.contenders import parse_contenders
from zoneward.lab.datasets import ComputedDataset
from zoneward.lab.simulation import ThreadRunner, simulate
from zoneward.lab.tally import SimulationSpec
from zoneward.report.simulation_page import simulation_page
from zoneward.routing.simulation_results import (
    BOUND,
    HINTS,
    SLICE_GROUPS,
    WEIGHTS,
    Band,
    Plots,
    Quantiles,
    Simulation,
)

SVG = "{http://www.w3.org/2000/svg}"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def real() -> Simulation:
    wanted = SimulationSpec(
        contenders=parse_contenders(["random,local,local-weighted"]),
        encodings=(SLICE_GROUPS, HINTS), by="endpoints", quantiles=True, plots=True, worst=3,
    )  # fmt: skip
    dataset = ComputedDataset("small", sample=2_000)
    return simulate(wanted, dataset, runner=ThreadRunner(2), bounds=True, shares=(0.05, 0.5))


def parsed(page: str) -> ElementTree.Element:
    """The page as XML, which it is too: anything that is not closed or not escaped fails here."""
    doctype, _, rest = page.partition("\n")
    assert doctype == "<!DOCTYPE html>"
    return ElementTree.fromstring(rest)


def said(element: ElementTree.Element) -> str:
    return " ".join("".join(element.itertext()).split())


def rows(page: str, section: str, table: int = 0) -> list[list[str]]:
    """The cells of one table of a section."""
    result = [item for item in parsed(page).iter("section") if item.get("id") == section]
    return [[said(cell) for cell in row] for row in list(result[0].iter("table"))[table].iter("tr")]


def sections(page: str) -> list[str]:
    return [item.attrib["id"] for item in parsed(page).iter("section")]


def page_of(command: str = "", **changes: Any) -> str:
    """Without plots, which take most of the time."""
    return simulation_page(simulation_of(**{"plots": Plots(), **changes}), command=command)


def test_the_first_table_has_the_columns_of_the_proposal_in_its_order() -> None:
    head, random, local, bound = rows(page_of(), "scores")
    columns = ["total", "in-zone", "max overload", "mean overload", "overload", "slices"]
    assert head == ["algorithm", *columns, "wins", "ties", "fell back"]
    others = ["81.50", "97.25", "98.75", "98.00", "63.12"]
    assert random == ["random", "72.48", *others, "1,200 12.0%", "34 0.3%", "0"]
    assert local == ["local", "86.72", *others, "5,678 56.8%", "3,000 30.0%", "77 0.8%"]
    assert bound == [BOUND, "92.76", *others, "", "", ""]


def test_gaps_to_the_bound_stand_beside_the_credits() -> None:
    means = (
        means_of("Balanced", 92.5, HINTS, gap_to_bound=0.256),
        means_of("local-opt", None, HINTS),
        means_of(BOUND, 92.76, HINTS),
        means_of("Balanced", 92.76, WEIGHTS, gap_to_bound=0.0),
        means_of(BOUND, 92.76, WEIGHTS),
    )
    page = page_of(means=means, bands=())
    hints, weights = rows(page, "scores"), rows(page, "scores", 1)
    assert [row[7] for row in hints] == ["gap", "0.26", "-", ""]
    assert [row[7] for row in weights] == ["gap", "0.00", ""]
    legend = said(next(item for item in parsed(page).iter("ul") if item.get("class") == "notes"))
    assert "Weights: those of zones, with which Zoneward's proxy overloads no endpoint." in legend
    assert "Weights: every endpoint has a fair load" in legend
    assert "GAP: what TOTAL lacks to the bound." in legend
    assert "Slice groups: each" not in legend


def test_bands_have_a_column_each_and_all_credits_below() -> None:
    page = page_of()
    assert rows(page, "endpoints") == [["algorithm", "1 to 8: 4,321 inputs"], ["random", "61.11"], ["local", "62.22"]]
    assert [row[:4] for row in rows(page, "endpoints", 2)[1:]] == [
        ["1 to 8", "4,321", "random", "61.11"],
        ["1 to 8", "4,321", "local", "62.22"],
    ]


def test_differences_are_shown_both_ways_round() -> None:
    head, random, local = rows(page_of(), "differences")
    assert head == ["row - column", "random", "local"]
    assert random[2] == "-14.232 -14.568 to -13.901"
    assert local[1] == "+14.232 +13.901 to +14.568"


@pytest.mark.parametrize(
    ("low", "high", "shade"), [(0.1, 0.3, "green"), (-0.3, -0.1, "red"), (-0.1, 0.3, None), (0.0, 0.0, None)]
)
def test_only_a_sure_difference_is_shaded(low: float, high: float, shade: str | None) -> None:
    difference = replace(simulation_of().differences[0], mean=(low + high) / 2, low=low, high=high)
    page = parsed(page_of(differences=(difference,)))
    cells = [item for item in page.iter("td") if " to " in said(item)]
    shades = [item.get("class") for item in cells[0].iter("span") if item.get("class") != "small"]
    assert shades == ([] if shade is None else [shade])


def test_quantiles_compare_algorithms_at_each_share() -> None:
    quantiles = tuple(
        Quantiles(algorithm=name, encoding=SLICE_GROUPS, by_share={0.5: credits_of(88.88), 0.001: credits_of(low)})
        for name, low in (("random", -1234.5), ("local", -0.001))
    )
    page = page_of(quantiles=quantiles)
    assert [row[:3] for row in rows(page, "quantiles")] == [
        ["algorithm", "below", "total"],
        ["random", "0.1 %", "-1234.50"],
        ["local", "0.1 %", "0.00"],
        ["random", "50 %", "88.88"],
        ["local", "50 %", "88.88"],
    ]
    assert re.findall(r'<span class="bold">(-?[\d.]+)</span>', page)[-3:] == ["0.00", "88.88", "88.88"]


def test_the_worst_inputs_have_their_numbers_and_zones() -> None:
    result = rows(page_of(), "worst-inputs")
    assert result[1:] == [["local", "-33.33", "shop/cart no. 1,234", "1 22 30", "0 7 144"]]


def test_facts_tell_the_seed_and_the_command() -> None:
    page = parsed(page_of("zoneward simulate -a 'x & y'", unscored=3))
    assert said(next(page.iter("p"))) == "kep: 10,000 inputs, and 3 without endpoints or nodes."
    facts = {said(item[0]): said(item[1]) for item in page.iter("div") if len(item) == 2 and item[0].tag == "dt"}
    assert facts == {"seed": "17", "command": "zoneward simulate -a 'x & y'"}


def test_a_partial_result_says_so_first_and_loudly() -> None:
    page = page_of(partial=True, unscored=45)
    assert said(next(parsed(page).iter("title"))).startswith("PARTIAL")
    marks = [said(item) for item in parsed(page).iter("p") if item.get("class") == "partial"]
    assert len(marks) == 1
    assert marks[0].startswith("PARTIAL, stopped early")
    assert "10,045 of 12,345" in marks[0]
    assert "PARTIAL" not in page_of()


def test_names_are_shown_and_never_run() -> None:
    simulation = simulation_of(
        dataset=NASTY,
        means=(means_of(NASTY, 80.0), means_of("local", 79.0)),
        bands=(Band(name=NASTY, rows=1, means=(means_of(NASTY, 80.0),)),),
        quantiles=(replace(simulation_of().quantiles[0], algorithm=NASTY),),
        differences=(replace(simulation_of().differences[0], algorithm=NASTY),),
        worst=(replace(simulation_of().worst[0], name=NASTY, algorithm=NASTY),),
        plots=plots_of(NASTY, "local"),
    )
    page = simulation_page(simulation, command=NASTY)
    assert not list(parsed(page).iter("script"))
    assert "<script" not in page
    (worst,) = rows(page, "worst-inputs")[1:]
    assert worst[0] == NASTY
    assert worst[2].startswith(NASTY)
    assert said(next(parsed(page).iter("h1"))) == f"Simulation: {NASTY}"


@pytest.mark.parametrize("name", ["\x00\x07\x1b[31m", "\ud800", "\ufffe\uffff", "]]>", "<!--", "a\r\nb"])
def test_a_name_of_any_characters_makes_a_page_that_can_be_written(name: str) -> None:
    page = page_of(dataset=name)
    parsed(page)
    page.encode()


def test_nothing_is_fetched_or_run(real: Simulation) -> None:
    for page in (simulation_page(simulation_of()), simulation_page(real)):
        assert set(re.findall(r"https?:[^\"'<> ]*", page)) == {"http://www.w3.org/2000/svg"}
        assert not re.search(r"@import|url\((?!#)|\bsrc=|<script|\son\w+=", page)
        assert all(item.startswith(("#", "data:")) for item in re.findall(r'href="([^"]*)"', page))


def test_the_page_of_a_real_simulation_is_the_same_every_time_and_small(real: Simulation) -> None:
    page = simulation_page(real)
    assert page == simulation_page(real)
    assert len(page.encode()) < 500_000
    assert len(list(parsed(page).iter(f"{SVG}svg"))) == 2 + 2 + (1 + 3) + (1 + 1)


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_a_real_browser_shows_the_page_without_complaint(real: Simulation, tmp_path: Path) -> None:
    assert CHROMIUM is not None
    file = tmp_path / "page.html"
    file.write_text(simulation_page(replace(real, dataset=NASTY), command=NASTY), "utf-8")
    command = [
        *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"),
        *(f"--user-data-dir={tmp_path / 'profile'}", f"--screenshot={tmp_path / 'page.png'}"),
        *("--window-size=1200,3000", file.as_uri()),
    ]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    complaints = [line for line in run.stderr.splitlines() if "CONSOLE" in line]
    assert complaints == []
    assert run.stdout.count("<svg") == 10
    assert "<script" not in run.stdout
    # The text in a browser has every cell that was written.
    assert run.stdout.count("</td>") == file.read_text("utf-8").count("</td>")
