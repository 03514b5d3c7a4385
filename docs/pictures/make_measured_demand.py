"""Draws measured-demand.svg: the load of each Pod by the demand of CPU and by measured demand.

pytest e2e/test_measured_demand.py
python docs/pictures/make_measured_demand.py
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from matplotlib.figure import Figure

from zoneward.report.plots import drawing, embedded

MEASURED: Final = Path(".cache/e2e/measured-demand.json")
PICTURE: Final = Path(__file__).with_name("measured-demand.svg")
COLOURS: Final = {"a": "#0969da", "b": "#bf8700", "c": "#8250df"}
TITLES: Final = {"cpu": "Demand of CPU: 33/33/33", "measured": "Measured demand"}


def figure(measured: Mapping[str, Any]) -> Figure:
    """``measured``: what the end-to-end test wrote."""
    picture = Figure(figsize=(7.2, 3.4), layout="constrained")
    for axes, (name, title) in zip(picture.subplots(1, 2, sharey=True), TITLES.items(), strict=True):
        loads, zones = measured[name]["loads"], measured["zones"]
        pods = sorted(loads, key=lambda pod: (zones[pod], -loads[pod]))
        axes.bar(range(len(pods)), [loads[pod] for pod in pods], color=[COLOURS[zones[pod]] for pod in pods], width=0.8)
        axes.axhline(1.0, color="#1f2328", linewidth=1, linestyle="--")
        axes.set_title(
            f"{title}\n{measured[name]['inZone']:.0%} in zone, busiest {max(loads.values()):.2f}", fontsize=10
        )
        bars = {zone: [bar for bar, pod in enumerate(pods) if zones[pod] == zone] for zone in COLOURS}
        axes.set_xticks([sum(own) / len(own) for own in bars.values()], [f"zone {zone}" for zone in bars])
        axes.tick_params(axis="x", length=0)
    picture.axes[0].set_ylabel("load of a Pod; 1 is fair")
    return picture


def main() -> None:
    with drawing():
        picture = embedded(
            figure(json.loads(MEASURED.read_bytes())),
            key="measured-demand",
            title="The load of each Pod by the demand of CPU, and by measured demand",
            description="By CPU, Pods of the busiest zone get twice a fair load. Measured, all are close to fair.",
        )
    PICTURE.write_text(picture + "\n")


if __name__ == "__main__":
    main()
