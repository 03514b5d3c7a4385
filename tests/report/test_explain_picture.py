"""The picture of ``explain`` has no words on top of each other, and no second half that says the same."""

import re
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.cli.running import sample_slices

from zoneward import sample
from zoneward.cli.main import run
from zoneward.report.explain_picture import load_text
from zoneward.report.traffic_page import flow_picture

WIDEST = 0.8
"""Of a letter, in parts of the size of its font: bold digits of DejaVu have 0.7."""
BOLD = 0.7
LOAD = re.compile(r"(now |planned )?[+\u2212\u00d7][0-9]+%?")
SIZES = {"name": 15.0, "load": 12.5}


@pytest.fixture(scope="module")
def slices(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Slices without hints, and those that the Services ask for."""
    files = {}
    for name, what_if in (("none", "none"), ("asked", None)):
        files[name] = tmp_path_factory.mktemp(name) / "slices.json"
        files[name].write_bytes(sample_slices(upstream=True, what_if=what_if))
    return files


def picture(capfd: pytest.CaptureFixture[str], service: str, *slices: Path) -> str:
    files = (str(sample.cluster()), *map(str, slices))
    assert run(["explain", "-q", *(word for file in files for word in ("-f", file)), service, "-o", "svg"]) == 0
    return capfd.readouterr().out


def texts(svg: str) -> list[tuple[float, float, float, str]]:
    """Line, left and right edge at most, and the words of each text."""
    boxes = []
    for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"):
        classes = element.attrib.get("class", "").split()
        words = element.text or ""
        width = WIDEST * len(words) * min([14.0, *(SIZES[cls] for cls in classes if cls in SIZES)])
        x = float(element.attrib["x"])
        left = x - (width if "end" in classes else width / 2 if "middle" in classes else 0)
        boxes.append((float(element.attrib["y"]), left, left + width, words))
    return boxes


@pytest.mark.parametrize("service", ["shop/cart", "shop/search", "kube-system/log-agent", "shop/checkout"])
@pytest.mark.parametrize("in_force", ["none", "asked"])
def test_wide_loads_do_not_overlap(
    capfd: pytest.CaptureFixture[str], slices: dict[str, Path], service: str, in_force: str
) -> None:
    svg = picture(capfd, service, slices[in_force])
    boxes = [(y, left, right, words) for y, left, right, words in texts(svg) if LOAD.fullmatch(words)]
    assert boxes
    for (y, left, right, words), (other_y, other_left, other_right, others) in combinations(boxes, 2):
        overlaps = abs(y - other_y) < 12 and left < other_right and other_left < right
        assert not overlaps, (words, others)


def test_unchanged_zones_are_drawn_once(capfd: pytest.CaptureFixture[str], slices: dict[str, Path]) -> None:
    for files, title, count in (
        ((slices["asked"],), "now, and planned the same", 1),
        ((), "planned; now is not known", 1),
        ((slices["none"],), "now", 2),
    ):
        words = [text for *_, text in texts(picture(capfd, "shop/cart", *files))]
        assert title in words
        assert words.count("zone a") == count
        assert words.count("100% stays in its zone") == 1
        assert "not known" not in words


@pytest.mark.parametrize("name", ["a", "west1", "west4-a", "eu-central-1a", "", "no-place-that-anybody-would-know"])
def test_names_of_zones_fit_their_boxes(name: str) -> None:
    zones = [f"{region}{name}" for region in ("us-east-", "z")]
    svg = flow_picture({(start, end): 1.0 for start in zones for end in zones}, described="", total="").html
    root = ElementTree.fromstring(svg)
    lefts = {float(box.attrib["x"]): float(box.attrib["width"]) for box in root.iter("rect")}
    names = [text for text in root.iter("text") if "name" in text.attrib.get("class", "").split()]
    assert len(names) == 4
    for text in names:
        left = max(left for left in lefts if left < float(text.attrib["x"]))
        right = float(text.attrib["x"]) + BOLD * SIZES["name"] * len(text.text or "")
        assert right <= left + lefts[left]


def test_wide_load_is_a_multiple() -> None:
    assert [load_text(load) for load in (0.0, 1.0, 8.01, 9.99, 10.0, 123.4)] == [
        "\u2212100%",
        "+0%",
        "+701%",
        "+899%",
        "\u00d710",
        "\u00d7123",
    ]
