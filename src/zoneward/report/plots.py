"""The plots of a simulation's page, as ``svg`` elements. They need matplotlib, so only that page imports this module.

Sizes are in units that the page scales: text of 10 is about as large as the page's small print.
Algorithms have a colour, a dash pattern and a marker by their index in ``order``, the same in every picture.

matplotlib writes files for single use: with ids that are the same in every figure, a style for the whole page and
digits that nobody sees. An optimizer of SVG files would be a dependency for sixty lines.
"""

import re
import warnings
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from itertools import accumulate
from math import log10, nan
from typing import Any, Final
from xml.etree import ElementTree

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from zoneward.report.html import printable
from zoneward.routing.simulation_results import BOUND, Curve, JointHistogram, ScoreHistogram

_NAMESPACE: Final = "http://www.w3.org/2000/svg"
_KEPT: Final = frozenset(("g", "path", "defs", "use", "text", "tspan", "clipPath", "rect", "image"))
_REFERENCE: Final = re.compile(r"url\(#([^)]+)\)")
_NUMBER: Final = re.compile(r"-?\d+\.\d{3,}")
_SETTINGS: Final[dict[str, Any]] = {
    # Text stays text: it can be searched and read aloud, it is small, and the page says in which font.
    "svg.fonttype": "none",
    "svg.hashsalt": "zoneward",
    "font.family": "DejaVu Sans",
    "font.size": 10,
    # A name may hold dollar signs.
    "text.parse_math": False,
    "text.color": "#1b1f24",
    "axes.edgecolor": "#8c959f",
    "axes.labelcolor": "#1b1f24",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#e3e7eb",
    "grid.linewidth": 0.7,
    "xtick.color": "#57606a",
    "ytick.color": "#57606a",
    "legend.frameon": False,
}


@contextmanager
def drawing() -> Iterator[None]:
    """Make and write figures in this context: it ignores the user's settings of matplotlib."""
    with mpl.rc_context(), warnings.catch_warnings():
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS)  # type: ignore[arg-type]
        # The page has fonts for what DejaVu lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        yield


def embedded(figure: Figure, *, key: str, title: str, description: str) -> str:
    """The figure as an ``svg`` element, as wide as its container. Its ids start with ``key`` and are unique."""
    text = StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    root = ElementTree.fromstring(text.getvalue())
    used = _references(root)
    drawn = _simplify(root, key, used)
    drawn.attrib = {
        "xmlns": _NAMESPACE,
        "viewBox": root.attrib["viewBox"],
        "role": "img",
        "aria-labelledby": f"{key}-title {key}-description",
        "stroke-linejoin": "round",
    }
    for position, (name, content) in enumerate((("title", title), ("desc", description))):
        element = ElementTree.Element(name, {"id": f"{key}-{'title' if name == 'title' else 'description'}"})
        element.text = content
        drawn.insert(position, element)
    return ElementTree.tostring(drawn, encoding="unicode")


def _references(root: ElementTree.Element) -> frozenset[str]:
    """Ids that something refers to. matplotlib gives one to every part, the same in every figure."""
    ids = set()
    for element in root.iter():
        for name, value in element.attrib.items():
            if name.endswith("href") and value.startswith("#"):
                ids.add(value[1:])
            ids.update(_REFERENCE.findall(value))
    return frozenset(ids)


def _simplify(element: ElementTree.Element, key: str, used: frozenset[str]) -> ElementTree.Element:
    """A copy without namespaces, metadata, styles for the whole page and needless digits."""
    drawn = ElementTree.Element(_local_name(element.tag))
    drawn.text = element.text if drawn.tag in ("text", "tspan") else None
    for name, value in element.attrib.items():
        name = _local_name(name)
        if name == "id":
            if value not in used:
                continue
            value = f"{key}-{value}"
        elif name == "href" and value.startswith("#"):
            value = f"#{key}-{value[1:]}"
        elif name in ("d", "x", "y"):
            value = re.sub(r"\s*([A-Za-z])\s*", r"\1", _NUMBER.sub(_round_number, value)).replace("\n", " ").strip()
        drawn.set(name, _REFERENCE.sub(lambda match: f"url(#{key}-{match[1]})", value))
    for child in element:
        if _local_name(child.tag) in _KEPT:
            inner = _simplify(child, key, used)
            if len(inner) or inner.tag not in ("g", "defs"):
                drawn.append(inner)
    return drawn


def _local_name(name: str) -> str:
    return name.rpartition("}")[2]


def _round_number(match: re.Match[str]) -> str:
    return f"{float(match[0]):.2f}".rstrip("0").rstrip(".")


# --- the pictures -----------------------------------------------------------------------------------------------------

MOST_PAIRS: Final = 10
_Dashes = str | tuple[float, tuple[float, ...]]
_INK, _SOFT = "#1b1f24", "#57606a"
# Okabe and Ito's colours, which colour-blind people can distinguish; wine replaces a yellow that is invisible on white.
# The last two complete ten series. They resemble blue and vermilion for some people: dashes and markers differ.
_COLOURS: Final = (
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#222222", "#56b4e9", "#882255", "#e69f00"),
    *("#5e3c99", "#8c510a"),
)
_DASHES: Final[tuple[_Dashes, ...]] = ("-", (0, (5, 1.5)), (0, (1.5, 1)), (0, (6, 1.5, 1.5, 1.5)), (0, (9, 3)))
_MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X")
_WIDTH, _LEFT, _RIGHT = 420, 40, 10
_ROW: Final = 34
_LEGEND_ROW: Final = 15.5
_PAIR: Final = 220
_COUNTS: Final = "viridis_r"
_QUANTILES: Final = (0.05, 0.5, 0.95)
_FAR: Final = 20


# --- score by number of endpoints -------------------------------------------------------------------------------------


def curve_plot(curves: Sequence[Curve], *, among: Sequence[Curve], order: Sequence[str], key: str) -> str:
    """Mean totals by the number of endpoints, a line for each algorithm. Axes have room for all ``among`` them."""
    with drawing():
        shown = [curve for curve in curves if curve.points]
        longest = max((len(_short(curve.algorithm)) for curve in shown), default=1)
        columns = max(1, min(3, int((_WIDTH - 20) / (40 + 6.2 * longest))))
        rows = -(-len(shown) // columns)
        figure, axes = _axes(height=250, below=40 + rows * _LEGEND_ROW)
        lines = [_line(axes, curve, order, index) for index, curve in enumerate(shown)]
        axes.set_xscale("log")
        points = [point for curve in among for point in curve.points]
        if points:
            low, high = (edge(x for x, _ in points) for edge in (min, max))
            axes.set_xlim(low / 1.12, high * 1.12)
            _log_ticks(axes, low / 1.12, high * 1.12)
            low, high = (edge(y for _, y in points) for edge in (min, max))
            axes.set_ylim(low - 0.05 * (high - low) - 0.5, high + 0.05 * (high - low) + 0.5)
        axes.set_xlabel("endpoints of the Service", labelpad=3)
        axes.set_ylabel("mean total", labelpad=3)
        axes.grid(visible=True)
        figure.legend(
            lines, [_short(curve.algorithm) for curve in shown], loc="lower left", ncols=columns, fontsize=9.5,
            bbox_to_anchor=(8 / _WIDTH, 0), borderaxespad=0, labelspacing=0.45, columnspacing=1.2, handlelength=2.8,
        )  # fmt: skip
        values = "; ".join(
            f"{curve.algorithm} {curve.points[0][1]:.1f} at {curve.points[0][0]:,.0f} endpoints, "
            f"{curve.points[-1][1]:.1f} at {curve.points[-1][0]:,.0f}"
            for curve in shown
        )
        return embedded(
            figure, key=key, title="Mean total by number of endpoints", description=f"A line each: {printable(values)}."
        )


def _line(axes: Axes, curve: Curve, order: Sequence[str], index: int) -> Line2D:
    across, up = zip(*curve.points, strict=True)
    if curve.algorithm == BOUND:
        return axes.plot(across, up, color=_SOFT, linewidth=1.4, linestyle=(0, (1, 1.6)), zorder=2)[0]
    colour, dashes, marker = _style(curve.algorithm, order)
    # Markers take turns, so that lines on top of each other are all seen.
    every = max(1, len(across) // 8)
    return axes.plot(
        across, up, color=colour, linestyle=dashes, linewidth=1.7, marker=marker, markersize=4.6,
        markevery=(index % every, every), markeredgecolor="white", markeredgewidth=0.5, zorder=3,
    )[0]  # fmt: skip


def _log_ticks(axes: Axes, low: float, high: float) -> None:
    """1, 2, 5, 10 and so on, or powers of ten alone where those would be too many."""
    steps = (1, 2, 5) if high / low < 5000 else (1,)
    ticks = [step * 10.0**power for power in range(-1, int(log10(high)) + 1) for step in steps]
    ticks = [tick for tick in ticks if low <= tick <= high]
    axes.set_xticks(ticks, list(map(_tick, ticks)))
    axes.set_xticks([], minor=True)


def _tick(value: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


# --- distribution -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Row:
    """Where the rows of one algorithm lie: ``quantiles`` of 5 %, one half and 95 %, to the width of a bin."""

    spread: ScoreHistogram
    rows: int
    quantiles: tuple[float, ...]
    lowest: float


def spread_plot(
    spreads: Sequence[ScoreHistogram], *, among: Sequence[ScoreHistogram], order: Sequence[str], key: str
) -> str:
    """How totals are distributed: a row for each algorithm, all as high. The axis has room for all ``among`` them."""
    with drawing():
        shown = [_row(spread) for spread in spreads if spread.bins]
        left = _left_edge([_row(spread) for spread in among if spread.bins])
        figure, axes = _axes(height=_ROW * max(1, len(shown)) + 8, below=32, left=10)
        for index, row in enumerate(shown):
            _ridge(axes, row, left, base=-index, colour=_style(row.spread.algorithm, order)[0])
        axes.set_xlim(left, 100)
        axes.set_ylim(-len(shown) + 0.8, 1.02)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.grid(visible=True, axis="x")
        axes.set_xlabel("total", labelpad=2)
        values = "; ".join(
            f"{row.spread.algorithm}: half of the inputs above {row.quantiles[1]:.1f}, "
            f"nine in ten from {row.quantiles[0]:.1f} to {row.quantiles[2]:.1f}"
            for row in shown
        )
        return embedded(figure, key=key, title="Distribution of totals", description=f"{printable(values)}.")


def _row(spread: ScoreHistogram) -> _Row:
    counts = list(accumulate(rows for _, rows in spread.bins))

    def quantile(share: float) -> float:
        index = min(bisect_right(counts, share * counts[-1]), len(counts) - 1)
        lower, rows = spread.bins[index]
        return lower + spread.width * (share * counts[-1] - (counts[index] - rows)) / max(rows, 1)

    return _Row(spread, counts[-1], tuple(map(quantile, _QUANTILES)), quantile(0.002))


def _left_edge(rows: Sequence[_Row]) -> float:
    """Where nearly all rows of most algorithms are; one that has many far below would push all others together."""
    lowest = sorted(row.lowest for row in rows)
    if not lowest:
        return 0.0
    usual = lowest[len(lowest) // 2] - _FAR
    low = min(edge for edge in lowest if edge >= usual)
    return max(0.0, min(5 * ((low - 1) // 5), 95))


def _ridge(axes: Axes, row: _Row, left: float, *, base: float, colour: str) -> None:
    spread = row.spread
    rows_at = dict(spread.bins)
    seen = [lower for lower in rows_at if lower >= left]
    if seen:
        bins = round((seen[-1] - seen[0]) / spread.width) + 1
        edges = [seen[0] + index * spread.width for index in range(bins + 1)]
        highest = max(rows_at[lower] for lower in seen) / 0.58
        heights = [base + 0.14 + rows_at.get(edge, 0) / highest for edge in edges[:-1]]
        axes.stairs(heights, edges, baseline=base + 0.14, fill=True, color=colour, alpha=0.35, linewidth=0)
        axes.stairs(heights, edges, baseline=base + 0.14, color=colour, linewidth=0.9)
    low, half, high = (max(quantile, left) for quantile in row.quantiles)
    axes.plot((low, high), (base + 0.05, base + 0.05), color=colour, linewidth=2, solid_capstyle="butt", clip_on=False)
    axes.plot(half, base + 0.05, marker="o", markersize=4.6, color=colour, markeredgecolor="white", clip_on=False)
    label = axes.annotate(
        _short(spread.algorithm), (0, base + 0.68), xycoords=("axes fraction", "data"), fontsize=10, color=_INK,
        va="center", annotation_clip=False,
    )  # fmt: skip
    label.set_bbox({"facecolor": "white", "alpha": 0.8, "linewidth": 0, "pad": 0.8})
    below = sum(rows for lower, rows in spread.bins if lower < left) / row.rows
    if below >= 0.0005:
        axes.annotate(
            f"\u25c2 {below:.1%} below {left:g}", (0, base + 0.33), xycoords=("axes fraction", "data"), fontsize=8.5,
            color=_SOFT, va="center", annotation_clip=False,
        )  # fmt: skip


# --- algorithm against algorithm --------------------------------------------------------------------------------------


def pairs_to_show(joints: Sequence[JointHistogram], totals: Mapping[str, float]) -> tuple[JointHistogram, ...]:
    """All pairs; where they are too many, the best algorithm against each of the first others."""
    if len(joints) <= MOST_PAIRS:
        return tuple(joints)
    names = {joint.algorithm for joint in joints} | {joint.other for joint in joints}
    best = max(sorted(names), key=lambda name: totals.get(name, float("-inf")))
    mine = [
        joint if joint.algorithm == best else _turned(joint)
        for joint in joints
        if best in (joint.algorithm, joint.other)
    ]
    return tuple(mine[:MOST_PAIRS])


def _turned(joint: JointHistogram) -> JointHistogram:
    cells = tuple(sorted((other, one, rows) for one, other, rows in joint.cells))
    return JointHistogram(
        algorithm=joint.other, other=joint.algorithm, encoding=joint.encoding, width=joint.width, cells=cells
    )


def joint_plot(joint: JointHistogram, *, most: int, key: str) -> str:
    """Rows by the totals of two algorithms, one up and one across. ``most`` rows in a cell have the darkest colour."""
    with drawing():
        figure = Figure(figsize=(_PAIR / 72, _PAIR / 72), dpi=72)
        axes = figure.add_axes((34 / _PAIR, 32 / _PAIR, (_PAIR - 42) / _PAIR, (_PAIR - 42) / _PAIR))
        edges = [edge for one, other, _ in joint.cells for edge in (one, other)] or [0.0]
        low, bins = min(edges), round((max(edges) - min(edges)) / joint.width) + 1
        high = low + bins * joint.width
        grid = [[nan] * bins for _ in range(bins)]
        for one, other, rows in joint.cells:
            grid[round((one - low) / joint.width)][round((other - low) / joint.width)] = rows
        axes.imshow(
            grid, extent=(low, high, low, high), origin="lower", interpolation="none", cmap=_COUNTS,
            norm=LogNorm(1, max(2, most)), aspect="auto", zorder=2,
        )  # fmt: skip
        axes.plot((low, high), (low, high), color="white", linewidth=1.6, alpha=0.6, zorder=3)
        axes.plot((low, high), (low, high), color="#d1242f", linewidth=0.9, zorder=4)
        axes.set_xlim(low, high)
        axes.set_ylim(low, high)
        axes.locator_params(nbins=5, integer=True)
        axes.tick_params(labelsize=9, length=2.5, pad=2)
        axes.grid(visible=True)
        axes.set_xlabel(_short(joint.other, 34), fontsize=9.5, labelpad=2)
        axes.set_ylabel(_short(joint.algorithm, 34), fontsize=9.5, labelpad=1)
        title = f"Total of {joint.algorithm} (up) against that of {joint.other} (across)"
        return embedded(figure, key=key, title=printable(title), description=f"{against(joint)}.")


def against(joint: JointHistogram) -> str:
    """How often one is ahead, by whole bins."""
    everything = sum(rows for _, _, rows in joint.cells) or 1
    above = sum(rows for one, other, rows in joint.cells if one > other) / everything
    below = sum(rows for one, other, rows in joint.cells if one < other) / everything
    return f"Above the line {above:.1%} of the inputs, below it {below:.1%}, on it {1 - above - below:.1%}"


def count_key(most: int, *, key: str) -> str:
    """The meaning of the colours of `joint_plot`."""
    with drawing():
        figure = Figure(figsize=(300 / 72, 44 / 72), dpi=72)
        axes = figure.add_axes((0.04, 0.72, 0.92, 0.22))
        bar = figure.colorbar(
            ScalarMappable(LogNorm(1, max(2, most)), _COUNTS), cax=axes, orientation="horizontal", drawedges=False
        )
        bar.outline.set_linewidth(0)
        _log_ticks(axes, 1, max(2, most))
        axes.tick_params(labelsize=9, length=2.5, pad=2)
        axes.set_xlabel("inputs in a square", fontsize=9.5, labelpad=1)
        return embedded(figure, key=key, title="Colours", description=f"From 1 to {most:,} inputs in a square.")


# --- what all have in common ------------------------------------------------------------------------------------------


def _axes(*, height: float, below: float, left: float = _LEFT) -> tuple[Figure, Axes]:
    """Axes with room of ``below`` under them; sizes in units."""
    whole = height + below + 8
    figure = Figure(figsize=(_WIDTH / 72, whole / 72), dpi=72)
    rectangle = (left / _WIDTH, below / whole, (_WIDTH - left - _RIGHT) / _WIDTH, height / whole)
    return figure, figure.add_axes(rectangle)


def _style(algorithm: str, order: Sequence[str]) -> tuple[str, _Dashes, str]:
    index = order.index(algorithm) if algorithm in order else len(order)
    return _COLOURS[index % len(_COLOURS)], _DASHES[index % len(_DASHES)], _MARKERS[index % len(_MARKERS)]


def _short(label: str, most: int = 56) -> str:
    """A label, with its middle left out if it is too long; the page has all of it."""
    label = printable(label)
    return label if len(label) <= most else f"{label[: most // 2]}\u2026{label[-(most // 2 - 1) :]}"
