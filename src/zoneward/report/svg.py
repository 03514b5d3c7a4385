"""A matplotlib figure as SVG for a page with several figures, the same every time.

matplotlib writes files for single use: with ids that are the same in every figure, a style for the whole page and
digits that nobody sees. An optimizer of SVG files would be a dependency for sixty lines.
"""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from typing import Any, Final
from xml.etree import ElementTree

import matplotlib as mpl
from matplotlib.figure import Figure

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
