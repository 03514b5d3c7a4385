"""A Service as if it requested another approach: the values of ``--what-if``, and of `compare`."""

from typing import Final

from msgspec.structs import replace

from zoneward.kube import names
from zoneward.kube.objects import Service
from zoneward.routing.algorithms.heuristics import (
    BALANCED,
    HEURISTICS,
    PREFER_ZONE,
    PROPORTIONAL_ZONE_CPU,
    REQUIRE_ZONE,
    SUBSETTING_ALGORITHMS,
    find_heuristic,
)
from zoneward.routing.configuration import Configuration, compatibility_of
from zoneward.routing.request import DISTRIBUTION_HEURISTICS, TOPOLOGY_MODE_HEURISTICS, Approach

NO_APPROACH: Final = "none"
WHAT_IF_VALUES: Final = (
    "Auto",
    PROPORTIONAL_ZONE_CPU.name,
    BALANCED.name,
    PREFER_ZONE.name,
    names.PREFER_SAME_ZONE,
    names.PREFER_SAME_NODE,
    *SUBSETTING_ALGORITHMS,
    REQUIRE_ZONE.name,
    NO_APPROACH,
)
_TOPOLOGY_MODES: Final = {
    **{value: value for value in ("Auto", *TOPOLOGY_MODE_HEURISTICS)},
    BALANCED.name: f"{names.DOMAIN}/{BALANCED.name}",
}
"""The annotation ``topology-mode`` for each of these values."""

_OTHER_NAMES: Final = {
    names.PREFER_CLOSE: names.PREFER_SAME_ZONE,
    names.SUBSETTING_REQUIRE: REQUIRE_ZONE.name,
    "cluster-wide": NO_APPROACH,
    "Disabled": NO_APPROACH,
    "Original": "random",
}
"""What else settings, tables, the API and the proposals' tool call them."""


def find_what_if_value(name: str) -> str | None:
    """The value of `WHAT_IF_VALUES` that a name means, or None.

    Names are the values themselves and those that the API, the annotations and the tables use: ``PreferClose``,
    ``cluster-wide``, ``zoneward.dev/Balanced``, ``Hints/ProportionalZoneCPU``. Letter case, ``-`` and ``_`` make no
    difference where only one value is meant.
    """
    if name in WHAT_IF_VALUES:
        return name
    prefix, slash, rest = name.rpartition("/")
    if slash:
        value = find_what_if_value(rest)
        if prefix.casefold() == names.DOMAIN:
            return value if find_heuristic(f"{names.DOMAIN}/{value}") else None
        return value if prefix in tuple(Approach) and value in HEURISTICS else None
    meant = {value for known, value in _ALL_NAMES if _fold(known) == _fold(name)}
    return meant.pop() if len(meant) == 1 else None


def _fold(name: str) -> str:
    return name.replace("-", "").replace("_", "").casefold()


_ALL_NAMES: Final = (*((value, value) for value in WHAT_IF_VALUES), *_OTHER_NAMES.items())


def known_name(heuristic: str, configuration: Configuration) -> str:
    """What a controller with this ``configuration`` calls a heuristic: ``PreferSameZone`` is ``PreferClose`` while its
    feature gate is off (KEP-3015).
    """
    if heuristic == names.PREFER_SAME_ZONE and not configuration.gates.prefer_same_traffic_distribution:
        return names.PREFER_CLOSE
    return heuristic


def as_if_requested(
    service: Service, value: str, configuration: Configuration, *, same_zone: str = names.PREFER_SAME_ZONE
) -> Service:
    """The same Service as if it requested ``value`` and nothing else; with ``none`` it requests nothing.

    The setting is one that a controller with this ``configuration`` knows, where there is one: Kubernetes calls
    ``ProportionalZoneCPU`` only ``Auto``, and ``PreferSameZone`` is ``PreferClose`` while its feature gate is off.
    ``same_zone`` is the name to use for ``PreferSameZone`` otherwise: some proxies know only ``PreferClose``.

    ``topologyKeys`` and traffic policies stay: they would still be there. Raises ValueError for a value that is not one
    of `WHAT_IF_VALUES`.
    """
    if value not in WHAT_IF_VALUES:
        raise ValueError(f"expected one of {', '.join(WHAT_IF_VALUES)}, got {value!r}")
    annotations = {
        name: text
        for name, text in (service.metadata.annotations or {}).items()
        if name
        not in (
            names.TOPOLOGY_AWARE_HINTS_ANNOTATION,
            names.TOPOLOGY_MODE_ANNOTATION,
            names.SUBSETTING_ANNOTATION,
            names.SUBSETTING_ALGORITHM_ANNOTATION,
        )
    }
    distribution = known_name(value, configuration) if value in DISTRIBUTION_HEURISTICS else None
    if distribution == names.PREFER_SAME_ZONE:
        distribution = same_zone
    if value == PROPORTIONAL_ZONE_CPU.name and not compatibility_of(configuration).reads_own_settings:
        annotations[names.TOPOLOGY_MODE_ANNOTATION] = "Auto"
    elif value in _TOPOLOGY_MODES:
        annotations[names.TOPOLOGY_MODE_ANNOTATION] = _TOPOLOGY_MODES[value]
    if value in SUBSETTING_ALGORITHMS:
        annotations[names.SUBSETTING_ANNOTATION] = "Auto"
        annotations[names.SUBSETTING_ALGORITHM_ANNOTATION] = value
    elif value == REQUIRE_ZONE.name:
        annotations[names.SUBSETTING_ANNOTATION] = names.SUBSETTING_REQUIRE
    else:
        # The controller's default must not apply either.
        annotations[names.SUBSETTING_ANNOTATION] = "Disabled"
    return replace(
        service,
        metadata=replace(service.metadata, annotations=annotations),
        spec=replace(service.spec, traffic_distribution=distribution),
    )
