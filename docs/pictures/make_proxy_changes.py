"""Draws proxy-changes.svg: one endpoint changes, and how long it takes until the kernel has it.

    python -m bench proxy-changes
    python docs/pictures/make_proxy_changes.py

Both scales are logarithmic. Points are medians; a bar goes up to 99 of 100 changes, kube-proxy's to the slowest.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

from matplotlib.figure import Figure

from zoneward.report.plots import drawing, embedded

MEASURED: Final = Path(".cache/bench/proxy-changes.json")
PICTURE: Final = Path(__file__).with_name("proxy-changes.svg")
OURS, KERNEL, THEIRS = "#0969da", "#54aeff", "#cf222e"
Points = dict[int, Sequence[float]]


def figure(measured: dict[str, Any]) -> Figure:
    """``measured``: what the benchmark wrote."""
    event, apply = (_points(measured[name]) for name in ("event", "apply"))
    theirs = _points({size: each["seconds"] for size, each in measured["beside"].get("kube-proxy", {}).items()})
    found = Figure(figsize=(7.2, 4.4), layout="constrained")
    axes = found.add_subplot()
    axes.set(xscale="log", yscale="log", xlabel="Services of 10 endpoints", ylabel="milliseconds")
    axes.grid(visible=True, which="major")
    for some, colour, label, most in (
        (theirs, THEIRS, "kube-proxy (nftables), from the request", 1.0),
        (event, OURS, "zoneward, from the watch event", 0.99),
        (apply, KERNEL, "of it the kernel's part", 0.99),
    ):
        if not some:
            continue
        middle = [median(each) * 1e3 for each in some.values()]
        high = [
            sorted(each)[min(len(each) - 1, int(len(each) * most))] * 1e3 - mid
            for each, mid in zip(some.values(), middle, strict=True)
        ]
        axes.errorbar(
            list(some),
            middle,
            [[0.0] * len(high), high],
            color=colour,
            marker="o",
            markersize=5,
            capsize=3,
            label=label,
        )
    axes.set_xticks(list(event), [f"{size:,}" for size in event])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(lambda value, _place: f"{value:g}")
    found.legend(loc="outside upper left", ncols=2, frameon=False)
    return found


def _points(by_size: dict[Any, Sequence[float]]) -> Points:
    return {int(size): by_size[size] for size in sorted(by_size, key=int)}


def main() -> None:
    with drawing():
        picture = embedded(
            figure(json.loads(MEASURED.read_bytes())),
            key="proxy-changes",
            title="Time until the kernel has one changed endpoint",
            description="It stays the same from 100 to 30,000 Services; with kube-proxy it grows with their number.",
        )
    PICTURE.write_text(picture + "\n")


if __name__ == "__main__":
    main()
