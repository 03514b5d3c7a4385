"""The options that change the input: what if a zone fails, or a Service has more Pods? And how they are written."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import click

MAX_PODS: Final = 150_000
"""The most Pods that a what-if question may ask for: as many as Kubernetes supports in a cluster."""


@dataclass(frozen=True, slots=True)
class ReplicasChange:
    """``--replicas [NAMESPACE/]SERVICE=N``."""

    service: str
    replicas: int

    def __str__(self) -> str:
        return f"{self.service}={self.replicas}"


@dataclass(frozen=True, slots=True)
class AddedPods:
    """``--add-pods [NAMESPACE/]SERVICE=ZONE:N``."""

    service: str
    zone: str
    count: int

    def __str__(self) -> str:
        return f"{self.service}={self.zone}:{self.count}"


class _ReplicasType(click.ParamType[ReplicasChange]):
    name = "[NAMESPACE/]SERVICE=N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> ReplicasChange:
        if isinstance(value, ReplicasChange):
            return value
        service, _, digits = str(value).partition("=")
        replicas = _number(digits, least=0)
        if not _is_service(service) or replicas is None:
            self.fail(f"expected {self.name} with N from 0 to {MAX_PODS}, got {value!r}", param, ctx)
        return ReplicasChange(service, replicas)


class _AddedPodsType(click.ParamType[AddedPods]):
    name = "[NAMESPACE/]SERVICE=ZONE:N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> AddedPods:
        if isinstance(value, AddedPods):
            return value
        service, _, rest = str(value).partition("=")
        zone, _, digits = rest.rpartition(":")
        count = _number(digits, least=1)
        if not _is_service(service) or not zone or count is None:
            self.fail(f"expected {self.name} with N from 1 to {MAX_PODS}, got {value!r}", param, ctx)
        return AddedPods(service, zone, count)


def _is_service(text: str) -> bool:
    return all(text.split("/")) and text.count("/") <= 1


def _number(text: str, *, least: int) -> int | None:
    # Not more digits than the limit has: Python reads no number of thousands.
    if not text.isascii() or not text.isdigit() or len(text) > len(str(MAX_PODS)):
        return None
    count = int(text)
    return count if least <= count <= MAX_PODS else None


CHANGE_OPTIONS: Final = (
    click.option("--without-zone", "without_zones", multiple=True, metavar="ZONE",
                 help="As if this zone had failed: its Nodes and the Pods on them are gone. May be repeated."),
    click.option("--without-node", "without_nodes", multiple=True, metavar="NODE",
                 help="As if this Node and the Pods on it were gone. May be repeated."),
    click.option("--replicas", multiple=True, type=_ReplicasType(), metavar=_ReplicasType.name,
                 help="As if the Service had N Pods: more in zones with the fewest, or fewer in zones with the most."
                 " May be repeated."),
    click.option("--add-pods", "added_pods", multiple=True, type=_AddedPodsType(), metavar=_AddedPodsType.name,
                 help="As if the Service had N more Pods in this zone. May be repeated."),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class InputChanges:
    """What ``--without-zone``, ``--without-node``, ``--replicas`` and ``--add-pods`` ask for, in their order."""

    without_zones: tuple[str, ...] = ()
    without_nodes: tuple[str, ...] = ()
    replicas: tuple[ReplicasChange, ...] = ()
    added_pods: tuple[AddedPods, ...] = ()

    def __bool__(self) -> bool:
        return any(values for _, values in self._given())

    @property
    def services(self) -> tuple[str, ...]:
        """The Services that change, as they were named, each once."""
        changes: Iterable[ReplicasChange | AddedPods] = (*self.replicas, *self.added_pods)
        return tuple(dict.fromkeys(change.service for change in changes))

    def refuse(self, why: str) -> None:
        """Raises a usage error where anything is to be changed: the option that was given, and why not."""
        for option, values in self._given():
            if values:
                raise click.UsageError(f"{option}: {why}")

    def _given(self) -> Iterator[tuple[str, tuple[object, ...]]]:
        yield "--without-zone", self.without_zones
        yield "--without-node", self.without_nodes
        yield "--replicas", self.replicas
        yield "--add-pods", self.added_pods


NO_CHANGES: Final = InputChanges()
