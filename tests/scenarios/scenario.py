"""A scenario as its file has it: a cluster, what happens to it step by step, and what must hold after each step.

``README.md`` beside this file says what the fields mean. Files are read strictly: an unknown field is an error.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import yaml
from msgspec import UNSET, UnsetType

from zoneward.cli.configuration_file import configuration_from
from zoneward.kube import names
from zoneward.routing.configuration import Configuration

FOLDER: Final = Path(__file__).parent
SHORT: Final = {
    "topology-mode": names.TOPOLOGY_MODE_ANNOTATION,
    "topology-aware-hints": names.TOPOLOGY_AWARE_HINTS_ANNOTATION,
    "subsetting": names.SUBSETTING_ANNOTATION,
    "subsetting-algorithm": names.SUBSETTING_ALGORITHM_ANNOTATION,
    "starting-threshold": names.STARTING_THRESHOLD_ANNOTATION,
}
"""Annotations of a Service that have short names here."""
Counts = dict[str, int]
"""By zone or node."""
Figures = dict[str, int | str]
"""By zone or node; ``7-16`` where it depends on who was faster."""
NONE: Final = "none"


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    pass


class NodeChange(_Part, frozen=True, kw_only=True):
    """What is not said stays, or is what most nodes have."""

    zone: str | UnsetType | None = UNSET
    cpu: int | UnsetType | None = UNSET
    ready: bool | UnsetType = UNSET
    labels: dict[str, str | None] = {}


class ServiceChange(_Part, frozen=True, kw_only=True):
    """A merge patch in two parts: what is null is removed."""

    annotations: dict[str, str | None] = {}
    spec: dict[str, Any] = {}


class Roll(_Part, frozen=True, kw_only=True):
    """All Pods are replaced, without waiting for the controller in between."""

    at_once: int
    to: Counts | None = None
    deletes_first: bool = False


class Rewriting(_Part, frozen=True, kw_only=True):
    """What another version would have left: the slices of a Service, changed or replaced."""

    by: str | None = None
    hints: Literal["keep", "none", "own-zone"] = "keep"
    groups: Literal["keep", "none"] = "keep"
    approach: Literal["keep", "none"] = "keep"
    drop: str | None = None
    beside: int | None = None
    only: int | None = None


class Seen(_Part, frozen=True, kw_only=True):
    """What one proxy may use."""

    cluster: int | UnsetType = UNSET
    local: int | UnsetType = UNSET
    rule: str | UnsetType = UNSET


class Expectation(_Part, frozen=True, kw_only=True):
    """Expected of one Service. Only the given fields are checked, except events: there are none but those named."""

    approach: str | UnsetType | None = UNSET
    reason: str | UnsetType = UNSET
    endpoints: int | UnsetType = UNSET
    hints: Figures | Literal["none"] | UnsetType = UNSET
    node_hints: Figures | Literal["none"] | UnsetType = UNSET
    groups: Figures | Literal["none"] | UnsetType = UNSET
    own_zone: int | UnsetType = UNSET
    slices: int | UnsetType = UNSET
    managers: list[str] | UnsetType = UNSET
    accepted: bool | Literal["absent"] | UnsetType = UNSET
    programmed: Literal[True] | str | UnsetType = UNSET
    events: list[str] = []
    route: dict[str, dict[str, int | Seen]] = {}
    writes: int | UnsetType = UNSET
    moved: int | UnsetType = UNSET


class Step(_Part, frozen=True, kw_only=True):
    """What happens, in the order of the fields, and what holds when all is quiet again."""

    row: str = ""
    controller: Literal["stays", "stops", "starts", "restarts"] = "stays"
    configuration: dict[str, Any] | None = None
    nodes: dict[str, NodeChange | None] = {}
    zone_down: str | None = None
    zone_up: str | None = None
    services: dict[str, ServiceChange | None] = {}
    pods: dict[str, Counts] = {}
    unready: dict[str, Counts] = {}
    roll: dict[str, Roll] = {}
    slices: dict[str, Rewriting] = {}
    proxy_gates: dict[str, bool] = {}
    expect: dict[str, Expectation] = {}


class Scenario(_Part, frozen=True, kw_only=True):
    source: str | list[str]
    holds: str
    zones: dict[str, list[int]]
    nodes: dict[str, NodeChange] = {}
    services: dict[str, ServiceChange] = msgspec.field(default_factory=lambda: {"cart": ServiceChange()})
    pods: dict[str, Counts] = {}
    configuration: dict[str, Any] = {}
    ipv6: bool = False
    batch_period: float | None = None
    steps: list[Step]

    def all_nodes(self) -> Iterator[tuple[str, NodeChange]]:
        for zone, sizes in self.zones.items():
            for index, cpu in enumerate(sizes, 1):
                yield f"{zone}{index}", NodeChange(zone=zone, cpu=cpu)
        yield from self.nodes.items()


def scenarios() -> dict[str, Path]:
    """All files by ``<folder>/<name>``."""
    return {f"{path.parent.name}/{path.stem}": path for path in sorted(FOLDER.glob("*/*.yaml"))}


def read_scenario(path: Path) -> Scenario:
    return msgspec.convert(yaml.safe_load(path.read_text()), Scenario)


def configured(document: Mapping[str, Any]) -> Configuration:
    """A configuration document without its head; ``compat: upstream`` as the flag has it."""
    rest = dict(document)
    upstream = rest.pop("compat", "") == "upstream"
    file = configuration_from({"apiVersion": "zoneward.dev/v1alpha1", "kind": "ZonewardConfiguration", **rest})
    return file.configuration.as_upstream() if upstream else file.configuration


def annotations_of(change: ServiceChange) -> dict[str, str | None]:
    return {SHORT.get(name, name): value for name, value in change.annotations.items()}
