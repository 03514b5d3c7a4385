"""Draws what ``zoneward explain -o svg`` shows of a Service of the sample cluster, with slices that have no hints yet.

python docs/pictures/make_explain.py
"""

from pathlib import Path
from typing import Final

from zoneward.advice.explanation import explain_service
from zoneward.advice.node_proxies import PROXY_KINDS, same_proxy_everywhere
from zoneward.advice.service_input import ServiceInput
from zoneward.cli.options import Options
from zoneward.cli.planned_services import select_services
from zoneward.report.explain_picture import explanation_picture

SERVICE: Final = "shop/search"


def drawings() -> dict[str, str]:
    """Every picture by the name of its file."""
    without_hints = select_services(Options(sample=True, services=(SERVICE,), what_if="none"))
    slices = tuple(
        slice_ for plan in without_hints.plans for family in plan.families for slice_ in family.changes.after
    )
    (service,), snapshot = without_hints.services, without_hints.snapshot
    given = ServiceInput(service, snapshot.nodes, snapshot.pods_of(service), slices, without_hints.cluster_state)
    proxies = same_proxy_everywhere(snapshot.nodes, PROXY_KINDS["kube-proxy-1.33"])
    return {"explain.svg": explanation_picture(explain_service(given, node_proxies=proxies))}


if __name__ == "__main__":
    for name, drawing in drawings().items():
        (Path(__file__).parent / name).write_text(drawing)
