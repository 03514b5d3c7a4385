"""What manifests would change in the traffic of a cluster: the document of ``zoneward advise --diff -o json``."""

from typing import Any, Final

from msgspec.structs import replace

from zoneward.advice.actions import AdvisedCluster, Effect, effect_of, outcome_as_decided
from zoneward.advice.json_value import JsonValue
from zoneward.advice.service_input import ServiceInput
from zoneward.kube import names
from zoneward.kube.adoption_marks import ADOPTION_MARKS
from zoneward.kube.objects import Service

_SPEC: Final = (
    "traffic_distribution",
    "internal_traffic_policy",
    "external_traffic_policy",
    "session_affinity",
    "selector",
)
"""Fields of a Service that decide about traffic and that people write."""
_DEFAULTS: Final = {
    "internal_traffic_policy": "Cluster",
    "external_traffic_policy": "Cluster",
    "session_affinity": "None",
}
"""Of the API."""
_WRITTEN: Final = (*ADOPTION_MARKS, names.REQUESTED_APPROACH_ANNOTATION, names.MEASURED_DEMAND_ANNOTATION)
"""Annotations that Zoneward writes: to apply a manifest without them does not remove them."""


class ChangedService(JsonValue, frozen=True, gc=False):
    """A Service whose settings differ. ``changes`` are in words; ``effect`` is None where no traffic is known."""

    namespace: str
    service: str
    changes: tuple[str, ...]
    effect: Effect | None


class ManifestChanges(JsonValue, frozen=True, gc=False):
    """``unknown`` are Services of the manifests that the cluster does not have: without Pods nothing is known."""

    services: tuple[ChangedService, ...]
    unchanged: int
    unknown: tuple[str, ...]


def changed_service(before: ServiceInput, after: ServiceInput, cluster: AdvisedCluster) -> ChangedService | None:
    """What the settings of ``after`` change, by the decision of this cluster; None where no setting differs."""
    service = after.service
    changes = tuple(_differences(before.service, service))
    if not changes:
        return None
    old, new = outcome_as_decided(before, cluster), outcome_as_decided(after, cluster)
    effect = None if old is None or new is None else effect_of(old, new)
    return ChangedService(service.metadata.namespace, service.metadata.name, changes, effect)


def applied(service: Service, manifest: Service) -> Service:
    """The Service after its manifest is applied: with its annotations and settings, and what the API server and
    Zoneward set.
    """
    spec: dict[str, Any] = {field: getattr(manifest.spec, field) for field in _SPEC}
    if spec["selector"] is None:
        spec["selector"] = service.spec.selector
    own = {name: text for name, text in (service.metadata.annotations or {}).items() if name in _WRITTEN}
    annotations = own | dict(manifest.metadata.annotations or {})
    return replace(
        service,
        metadata=replace(service.metadata, annotations=annotations),
        spec=replace(service.spec, **spec),
    )


def _differences(old: Service, new: Service) -> list[str]:
    """``trafficDistribution: none -> PreferClose``. Defaults of the API are no difference."""
    pairs = [(field, getattr(old.spec, field), getattr(new.spec, field)) for field in _SPEC]
    texts = [
        f"{_camel(field)}: {_shown(before)} -> {_shown(after)}"
        for field, before, after in pairs
        if (before or _DEFAULTS.get(field)) != (after or _DEFAULTS.get(field))
    ]
    before, after = old.metadata.annotations or {}, new.metadata.annotations or {}
    return texts + [
        f"{name}: {_shown(before.get(name))} -> {_shown(after.get(name))}"
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name) and _is_setting(name)
    ]


def _is_setting(name: str) -> bool:
    domain = name.partition("/")[0]
    return domain == "zoneward.dev" or domain.endswith(("service.kubernetes.io", "endpointslice.kubernetes.io"))


def _camel(field: str) -> str:
    first, *others = field.split("_")
    return first + "".join(word.capitalize() for word in others)


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return ",".join(f"{key}={text}" for key, text in sorted(value.items()))
    return str(value) if value not in (None, "") else "none"
