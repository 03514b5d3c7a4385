"""Labels of an EndpointSlice: the Service's own, and the three that belong to the slice's controller."""

from collections.abc import Mapping

from zoneward.kube import names
from zoneward.kube.objects import Service


def slice_labels(service: Service, *, manager: str, upstream: bool = False) -> dict[str, str]:
    """The labels that every slice of a Service carries. A reserved label on the Service is not mirrored."""
    labels = mirrored(service.metadata.labels, upstream=upstream)
    if is_headless(service, upstream=upstream):
        labels[names.HEADLESS_LABEL] = ""
    labels[names.SERVICE_NAME_LABEL] = service.metadata.name
    labels[names.MANAGED_BY_LABEL] = manager
    return labels


def mirrored(labels: Mapping[str, str] | None, *, upstream: bool = False) -> dict[str, str]:
    """Labels without the reserved ones. The zone label is one of them: it says which zones consume a slice."""
    return {
        name: value
        for name, value in (labels or {}).items()
        if name not in names.RESERVED_SLICE_LABELS and (upstream or name != names.ZONE_LABEL)
    }


def need_update(existing: Mapping[str, str] | None, wanted: Mapping[str, str]) -> bool:
    """Whether labels differ. Reserved ones alone never cause a write, as upstream; the zone label does."""
    return mirrored(existing, upstream=True) != mirrored(wanted, upstream=True)


def is_headless(service: Service, *, upstream: bool = False) -> bool:
    """Whether slices get the headless label, which proxies pass over.

    A Service that no API server has seen yet has no cluster IP; it will get one. Upstream calls it headless.
    """
    ip = service.spec.cluster_ip
    return ip == names.HEADLESS or (upstream and not ip)
