"""What an operator can set: gates, thresholds, sizes (``ZonewardConfiguration``). Values only; files are read
elsewhere.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from math import isfinite
from typing import Any, Final, Literal, get_args

from zoneward.kube import names
from zoneward.kube.validation import DEFAULT_ENDPOINTS_PER_SLICE, ENDPOINTS_PER_SLICE

API_VERSION: Final = "zoneward.dev/v1alpha1"
KIND: Final = "ZonewardConfiguration"
UPSTREAM_THRESHOLD: Final = Fraction(1, 5)
"""Upstream's one threshold, for starting and for keeping."""

MissingCPU = Literal["count-nodes", "disable"]
DefaultApproach = Literal["ClusterWide"]
SUBSETTING_KEYS: Final = ("algorithm", "startingThreshold", "padding", "overloadThreshold", "encoding")


class ConfigurationError(ValueError):
    """A setting that can't be used. The text is one line: field, what was expected, what was found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gates:
    """Feature gates of the proposals. All are on but ``ServiceTopology``, the one that the others replaced."""

    topology_aware_hints: bool = True
    topology_aware_subsetting: bool = True
    service_traffic_distribution: bool = True
    prefer_same_traffic_distribution: bool = True
    service_traffic_policy: bool = True
    service_topology: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HintsSettings:
    """Overload thresholds as shares above fair (0.2 = 20 %), and what Nodes without allocatable CPU mean.

    Hints start strictly below ``start_threshold`` and are kept strictly below ``keep_threshold`` (KEP-2433 § Overload).
    """

    start_threshold: Fraction = Fraction(1, 5)
    keep_threshold: Fraction = Fraction(3, 10)
    missing_cpu: MissingCPU = "count-nodes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """Everything a decision can depend on besides the cluster's objects.

    ``upstream`` makes every decision the way current Kubernetes does, where the proposals or this project differ from
    it. ``unused`` names sections of the document that were read and checked but that no decision looks at yet.
    """

    gates: Gates = field(default_factory=Gates)
    default_approach: DefaultApproach = "ClusterWide"
    hints: HintsSettings = field(default_factory=HintsSettings)
    max_endpoints_per_slice: int = DEFAULT_ENDPOINTS_PER_SLICE
    upstream: bool = False
    unused: tuple[str, ...] = ()

    @property
    def manager(self) -> str:
        """The value of the managed-by label on slices that the decision is for."""
        return names.BUILT_IN_MANAGER if self.upstream else names.MANAGER

    def as_upstream(self) -> "Configuration":
        """The same, deciding as current Kubernetes does: one threshold, and no other use for Nodes without CPU."""
        thresholds = HintsSettings(
            start_threshold=UPSTREAM_THRESHOLD, keep_threshold=UPSTREAM_THRESHOLD, missing_cpu="disable"
        )
        return replace(self, hints=thresholds, upstream=True)

    def __post_init__(self) -> None:
        gates = self.gates
        for refused, reason in (
            (gates.topology_aware_hints and gates.service_topology, "TopologyAwareHints together with ServiceTopology"),
            (
                gates.topology_aware_hints and not gates.service_traffic_policy,
                "TopologyAwareHints without ServiceTrafficPolicy",
            ),
            (
                gates.topology_aware_subsetting and gates.service_topology,
                "TopologyAwareSubsetting together with ServiceTopology",
            ),
        ):
            if refused:
                raise ConfigurationError(f"featureGates: expected a combination that works, got {reason}")
        if self.max_endpoints_per_slice not in ENDPOINTS_PER_SLICE:
            raise ConfigurationError(
                f"maxEndpointsPerSlice: expected a number from {ENDPOINTS_PER_SLICE[0]} to {ENDPOINTS_PER_SLICE[-1]},"
                f" got {self.max_endpoints_per_slice}"
            )
        for name, value in (
            ("startThreshold", self.hints.start_threshold),
            ("keepThreshold", self.hints.keep_threshold),
        ):
            if not 0 < value <= 100:
                raise ConfigurationError(
                    f"hints.{name}: expected a share above 0 (0.2 is 20 %), at most 100, got {_shown(value)}"
                )
        if self.hints.keep_threshold < self.hints.start_threshold:
            raise ConfigurationError(
                f"hints.keepThreshold: expected at least startThreshold ({float(self.hints.start_threshold):g}),"
                f" got {float(self.hints.keep_threshold):g}"
            )


def configuration_from(document: Mapping[str, Any]) -> Configuration:
    """A configuration document (already parsed YAML or JSON) as a value.

    Raises ConfigurationError for an unknown key, a wrong type, a value out of range, or gates that exclude each other.
    """
    rest = dict(document)
    for key, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        if (got := rest.pop(key, None)) != expected:
            raise ConfigurationError(f"{key}: expected {expected}, got {got!r}")
    gates = {gate.name: True for gate in fields(Gates)}
    settings: dict[str, Any] = {}
    if (section := _section(rest, "featureGates")) is not None:
        known = {_pascal(gate): gate for gate in gates}
        settings["gates"] = Gates(**{known[k]: _boolean(v, f"featureGates.{k}") for k, v in _known(section, known)})
    if "defaultApproach" in rest:
        settings["default_approach"] = _choice(
            rest.pop("defaultApproach"), "defaultApproach", get_args(DefaultApproach)
        )
    if (section := _section(rest, "hints")) is not None:
        values: dict[str, Any] = {}
        for key, value in _known(section, ("startThreshold", "keepThreshold", "missingCPU"), within="hints"):
            if key == "missingCPU":
                values["missing_cpu"] = _choice(value, "hints.missingCPU", get_args(MissingCPU))
            else:
                values[_snake(key)] = _share(value, f"hints.{key}")
        settings["hints"] = HintsSettings(**values)
    if (section := _section(rest, "subsetting")) is not None:
        # Known to the document already, so that one file serves this version and the next; `unused` tells.
        _known(section, SUBSETTING_KEYS, within="subsetting")
        settings["unused"] = ("subsetting",)
    if "maxEndpointsPerSlice" in rest:
        settings["max_endpoints_per_slice"] = _integer(rest.pop("maxEndpointsPerSlice"), "maxEndpointsPerSlice")
    for key in rest:
        known_keys = "featureGates, defaultApproach, hints, subsetting, maxEndpointsPerSlice"
        raise ConfigurationError(f"{key}: expected one of {known_keys}, got an unknown key")
    return Configuration(**settings)


def _section(rest: dict[str, Any], key: str) -> Mapping[str, Any] | None:
    if key not in rest:
        return None
    section = rest.pop(key)
    if section is None:
        return {}
    if not isinstance(section, Mapping):
        raise ConfigurationError(f"{key}: expected a map, got {section!r}")
    return section


def _known(section: Mapping[str, Any], known: Any, *, within: str = "featureGates") -> list[tuple[str, Any]]:
    for key in section:
        if key not in known:
            raise ConfigurationError(f"{within}.{key}: expected one of {', '.join(known)}, got an unknown key")
    return list(section.items())


def _boolean(value: Any, path: str) -> bool:
    if not isinstance(value, bool):
        raise ConfigurationError(f"{path}: expected true or false, got {value!r}")
    return value


def _integer(value: Any, path: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigurationError(f"{path}: expected a whole number, got {value!r}")
    return value


def _share(value: Any, path: str) -> Fraction:
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or (isinstance(value, float) and not isfinite(value))
    ):
        raise ConfigurationError(f"{path}: expected a share above 0 (0.2 is 20 %), got {value!r}")
    # The shortest text of a float is what was written: 0.2 is a fifth here, not the double next to it.
    return Fraction(repr(value))


def _shown(value: Fraction) -> str:
    """A share as it may have been written; never too large to be a float."""
    return f"{float(value):g}" if abs(value) < 10**6 else "a number far above"


def _choice(value: Any, path: str, choices: tuple[str, ...]) -> Any:
    if value not in choices:
        raise ConfigurationError(f"{path}: expected {' or '.join(choices)}, got {value!r}")
    return value


def _pascal(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
