"""Plots are valid XML, equal each time, self-contained, and show their values."""

import re
from collections.abc import Callable, Sequence
from itertools import combinations
from math import cbrt, dist
from xml.etree import ElementTree

import matplotlib as mpl
import pytest
from tests.report.simulated import NASTY, plots_of

from zoneward.report import plots
from zoneward.report.plots import MOST_PAIRS, against, count_key, curve_plot, joint_plot, pairs_to_show, spread_plot
from zoneward.routing.simulation_results import BOUND, Curve, Plots, ScoreHistogram

SVG = "{http://www.w3.org/2000/svg}"
NAMES = ("random", "local", "local-shared")
PLOTS = plots_of(*NAMES)


def curves(plots: Plots = PLOTS, order: Sequence[str] = NAMES) -> str:
    return curve_plot(plots.curves, among=plots.curves, order=order, key="curves")


def spreads(plots: Plots = PLOTS, order: Sequence[str] = NAMES) -> str:
    return spread_plot(plots.spreads, among=plots.spreads, order=order, key="spreads")


def pair(plots: Plots = PLOTS) -> str:
    return joint_plot(plots.joints[0], most=50, key="pair")


def colours() -> str:
    return count_key(12_345, key="colours")


ALL = pytest.mark.parametrize("draw", [curves, spreads, pair, colours])


def texts(svg: str) -> list[str]:
    return ["".join(item.itertext()).strip() for item in ElementTree.fromstring(svg).iter(f"{SVG}text")]


@ALL
def test_a_picture_is_well_formed_scales_has_a_title_and_stands_on_its_own(draw: Callable[[], str]) -> None:
    svg = draw()
    root = ElementTree.fromstring(svg)
    assert root.tag == f"{SVG}svg"
    assert "viewBox" in root.attrib
    assert not {"width", "height"} & root.attrib.keys()
    said = [root.find(f"{SVG}title"), root.find(f"{SVG}desc")]
    labels = root.attrib["aria-labelledby"].split()
    assert [item.attrib["id"] for item in said if item is not None and item.text] == labels
    assert re.findall(r"https?:[^\"]*", svg) == ["http://www.w3.org/2000/svg"]
    assert all(item.startswith(("#", "data:image/png;base64,")) for item in re.findall(r'href="([^"]*)"', svg))
    ids = re.findall(r'\bid="([^"]*)"', svg)
    used = re.findall(r'href="#([^"]*)"|url\(#([^)]*)\)', svg)
    assert len(ids) == len(set(ids))
    assert {one or other for one, other in used} <= set(ids)
    assert len({id_.split("-")[0] for id_ in ids}) == 1, "all begin with the key"


@ALL
def test_a_picture_is_the_same_every_time(draw: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    first = draw()
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
    monkeypatch.setitem(mpl.rcParams, "font.size", 30)
    monkeypatch.setitem(mpl.rcParams, "svg.fonttype", "path")
    assert draw() == first
    assert mpl.rcParams["font.size"] == 30


def test_the_bound_is_drawn_where_it_is_there() -> None:
    bound = Curve(algorithm=BOUND, encoding="slice-groups", points=((1.0, 90.0), (100.0, 92.0)))
    drawn = Plots(curves=(*PLOTS.curves, bound))
    assert BOUND in texts(curves(drawn))
    assert BOUND not in texts(curves())


@pytest.mark.parametrize("draw", [curves, spreads])
def test_nothing_to_draw_is_an_empty_picture(draw: Callable[[Plots], str]) -> None:
    empty = Plots(
        curves=(Curve(algorithm="local", encoding="hints", points=()),),
        spreads=(ScoreHistogram(algorithm="local", encoding="hints", width=0.5, bins=()),),
    )
    for item in (Plots(), empty):
        ElementTree.fromstring(draw(item))


def test_any_name_can_be_drawn() -> None:
    names = (NASTY, "$\\frac{x}", "_private", "\x00\x1b[31m", "\ud800", "x" * 300, "规则", "a\nb")
    drawn = plots_of(*names)
    pairs = (pair(plots_of(one, other)) for one, other in zip(names[::2], names[1::2], strict=True))
    for svg in (curves(drawn, names), spreads(drawn, names), *pairs):
        ElementTree.fromstring(svg)
        assert "<script" not in svg
        svg.encode()


def test_one_algorithm_far_below_does_not_push_the_others_together() -> None:
    far = ScoreHistogram(algorithm="PreferSameZone", encoding="slice-groups", width=0.5, bins=((0.0, 30), (85.0, 70)))
    drawn = texts(spreads(Plots(spreads=(*PLOTS.spreads, far))))
    assert "0" not in drawn
    assert "\u25c2 30.0% below 65" in drawn


def test_ten_series_can_be_distinguished_also_by_colour_blind_people() -> None:
    names = [f"algorithm-{index}" for index in range(10)]
    styles = [plots._style(name, names) for name in names]
    assert len({colour for colour, _, _ in styles}) == 10
    for one, other in combinations(styles, 2):
        if min(_distance(one[0], other[0], vision) for vision in _VISIONS) < 25:
            assert one[1] != other[1], (one, other)
            assert one[2] != other[2], (one, other)


# Of linear RGB: as it is, and as people without green and without red receptors see it (Machado and others, 2009).
_VISIONS = (
    ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
)
_XYZ = ((0.4339, 0.3762, 0.1899), (0.2126, 0.7152, 0.0722), (0.0177, 0.1095, 0.8728))
"""From linear RGB, by the white of sRGB."""


def _distance(one: str, other: str, vision: Sequence[Sequence[float]]) -> float:
    """CIE76."""
    return dist(_lab(one, vision), _lab(other, vision))


def _lab(colour: str, vision: Sequence[Sequence[float]]) -> tuple[float, float, float]:
    linear = [(int(colour[at : at + 2], 16) / 255) ** 2.2 for at in (1, 3, 5)]
    x, y, z = (cbrt(max(part, 0.0)) for part in _times(_XYZ, _times(vision, linear)))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def _times(matrix: Sequence[Sequence[float]], vector: Sequence[float]) -> list[float]:
    return [sum(factor * value for factor, value in zip(row, vector, strict=True)) for row in matrix]


def test_a_pair_tells_how_often_each_is_ahead() -> None:
    assert against(PLOTS.joints[0]) == "Above the line 30.0% of the inputs, below it 20.0%, on it 50.0%"
    assert {"local", "random"} <= set(texts(pair()))


def test_of_many_pairs_the_best_is_shown_against_the_first_others() -> None:
    joints = plots_of(*"abcdefghijklm").joints
    shown = pairs_to_show(joints, {"a": 70.0, "c": 90.0, "d": 80.0})
    assert [item.algorithm for item in shown] == ["c"] * MOST_PAIRS
    assert [item.other for item in shown] == list("abdefghijk")
