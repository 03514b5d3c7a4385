"""Of Pods."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from zoneward.sandbox.server.columns.ages import AGE, age
from zoneward.sandbox.server.durations import since
from zoneward.sandbox.server.kinds import NAME, Column, Object

COLUMNS: Final = (
    NAME,
    Column("Ready", description="The aggregate readiness state of this pod for accepting traffic."),
    Column("Status", description="The aggregate status of the containers in this pod."),
    Column("Restarts", description="How often its containers have been restarted, and when the last time."),
    AGE,
    Column("IP", description="The first address of the pod.", priority=1),
    Column("Node", description="The node this pod is on.", priority=1),
    Column("Nominated Node", description="The node it may get when others have left.", priority=1),
    Column("Readiness Gates", description="How many of them are open.", priority=1),
)

_NONE: Final = "<none>"
_FINISHED: Final = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


def cells(thing: Object, now: datetime) -> list[object]:
    metadata, spec, status = thing["metadata"], thing.get("spec") or {}, thing.get("status") or {}
    summary = _Summary.of(spec, status)
    return [
        metadata.get("name", ""),
        f"{summary.ready}/{len(spec.get('containers') or ()) + len(_sidecars(spec))}",
        _ending(metadata, status) or summary.reason,
        summary.restarts_since(now),
        age(thing, now),
        _address(status) or _NONE,
        spec.get("nodeName") or _NONE,
        status.get("nominatedNodeName") or _NONE,
        _gates(spec.get("readinessGates") or (), status.get("conditions") or ()),
    ]


def conditions(thing: Object) -> list[Object]:
    """Of its row: that there is nothing to be expected any more. Empty while there is."""
    phase = (thing.get("status") or {}).get("phase", "")
    if phase not in _FINISHED:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _FINISHED[phase]}]


@dataclass(slots=True)
class _Restarts:
    """How many, and the time of the last one whose time is known."""

    count: int = 0
    last: str = ""

    def add(self, container: Object) -> None:
        self.count += container.get("restartCount", 0)
        ended = (container.get("lastState") or {}).get("terminated") or {}
        # RFC 3339 in UTC with whole seconds: the order of texts is that of times.
        self.last = max(self.last, ended.get("finishedAt") or "")


@dataclass(slots=True)
class _Summary:
    """Of what all containers say."""

    reason: str
    restarts: _Restarts
    ready: int = 0

    @classmethod
    def of(cls, spec: Object, status: Object) -> "_Summary":
        summary = cls(_reason(status), _Restarts())
        of_sidecars = _Restarts()
        initializing = summary._initialize(spec, status, of_sidecars)
        if not initializing or _is_true(status, "Initialized"):
            # What init containers had to go through does not count any more.
            summary.restarts = of_sidecars
            summary._run(status)
        return summary

    def restarts_since(self, now: datetime) -> str:
        count, last = self.restarts.count, self.restarts.last
        return f"{count} ({since(last, now)} ago)" if count and last else str(count)

    def _initialize(self, spec: Object, status: Object, of_sidecars: _Restarts) -> bool:
        """Whether one of the init containers is in the way; then the reason is that one's."""
        sidecars = _sidecars(spec)
        for index, container in enumerate(status.get("initContainerStatuses") or ()):
            is_sidecar = container["name"] in sidecars
            state = container.get("state") or {}
            ended, waiting = state.get("terminated"), (state.get("waiting") or {}).get("reason")
            self.restarts.add(container)
            if is_sidecar:
                of_sidecars.add(container)
            if ended is not None and not ended.get("exitCode"):
                continue
            if is_sidecar and container.get("started"):
                self.ready += bool(container.get("ready"))
                continue
            if ended is not None:
                self.reason = f"Init:{_end(ended)}"
            elif waiting and waiting != "PodInitializing":
                self.reason = f"Init:{waiting}"
            else:
                self.reason = f"Init:{index}/{len(spec.get('initContainers') or ())}"
            return True
        return False

    def _run(self, status: Object) -> None:
        has_running = False
        # The first container has the last word.
        for container in reversed(status.get("containerStatuses") or ()):
            state = container.get("state") or {}
            self.restarts.add(container)
            if waiting := (state.get("waiting") or {}).get("reason"):
                self.reason = waiting
            elif (ended := state.get("terminated")) is not None:
                self.reason = _end(ended)
            elif container.get("ready") and state.get("running") is not None:
                has_running = True
                self.ready += 1
        if self.reason == "Completed" and has_running:
            self.reason = "Running" if _is_true(status, "Ready") else "NotReady"


def _reason(status: Object) -> str:
    """Before any container is asked."""
    if any(
        condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated"
        for condition in status.get("conditions") or ()
    ):
        return "SchedulingGated"
    return str(status.get("reason") or status.get("phase", ""))


def _ending(metadata: Object, status: Object) -> str:
    """What a pod that is being deleted is, whatever its containers are; empty if nothing but that."""
    if "deletionTimestamp" not in metadata:
        return ""
    if status.get("reason") == "NodeLost":
        return "Unknown"
    return "" if status.get("phase") in _FINISHED else "Terminating"


def _end(ended: Object) -> str:
    if reason := ended.get("reason"):
        return str(reason)
    signal = ended.get("signal")
    return f"Signal:{signal}" if signal else f"ExitCode:{ended.get('exitCode', 0)}"


def _sidecars(spec: Object) -> frozenset[str]:
    """Init containers that go on."""
    return frozenset(
        container["name"]
        for container in spec.get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    )


def _address(status: Object) -> str:
    addresses: Sequence[Object] = status.get("podIPs") or [{"ip": status.get("podIP")}]
    return addresses[0].get("ip") or ""


def _gates(gates: Sequence[Object], conditions: Iterable[Object]) -> str:
    if not gates:
        return _NONE
    fulfilled = {condition.get("type") for condition in conditions if condition.get("status") == "True"}
    return f"{sum(gate.get('conditionType') in fulfilled for gate in gates)}/{len(gates)}"


def _is_true(status: Object, condition_type: str) -> bool:
    return any(
        condition.get("type") == condition_type and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )
