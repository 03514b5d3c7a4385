"""The table of pods says of each state what a real server (1.36.3) said of it."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from zoneward.sandbox.server.tables import POD_COLUMNS, pod_cells, pod_row_conditions

Object = dict[str, Any]

NOW = datetime(2026, 11, 21, 17, 54, 42, tzinfo=UTC)


def ago(**duration: float) -> str:
    return (NOW - timedelta(**duration)).strftime("%Y-%m-%dT%H:%M:%SZ")


def pod(status: Object, *, containers: int = 1, init: Sequence[str] = (), **spec: object) -> Object:
    """``init`` are the restart policies of its init containers ``i0``, ``i1``, ..."""
    spec["containers"] = [{"name": f"c{each}", "image": "i"} for each in range(containers)]
    spec["initContainers"] = [
        {"name": f"i{index}", "image": "i"} | ({"restartPolicy": policy} if policy else {})
        for index, policy in enumerate(init)
    ]
    return {"metadata": {"name": "p", "creationTimestamp": ago(minutes=5, seconds=3)}, "spec": spec, "status": status}


def container(
    state: Object, last: Object | None = None, *, name: str = "c0", ready: bool = False, **more: object
) -> Object:
    return {"name": name, "ready": ready, "restartCount": 0, "state": state, "lastState": last or {}, **more}


def ended(exit_code: int = 0, reason: str | None = None, signal: int | None = None, at: str | None = None) -> Object:
    values = {"exitCode": exit_code, "reason": reason, "signal": signal, "finishedAt": at}
    return {"terminated": {key: value for key, value in values.items() if value is not None}}


def waiting(reason: str = "") -> Object:
    return {"waiting": {"reason": reason} if reason else {}}


def running(*statuses: Object, phase: str = "Running", **more: object) -> Object:
    return {"phase": phase, "containerStatuses": list(statuses), **more}


def initializing(*statuses: Object, **more: object) -> Object:
    return {"phase": "Pending", "initContainerStatuses": list(statuses), **more}


RUN: Object = {"running": {"startedAt": ago(hours=1)}}
READY = [{"type": "Ready", "status": "True"}, {"type": "Initialized", "status": "True"}]
GATES = [{"conditionType": f"example.com/{letter}"} for letter in "abc"]
GATED = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}

STATES: dict[str, tuple[Object, str, str, str]] = {
    "pending": (pod({"phase": "Pending"}), "0/1", "Pending", "0"),
    "unknown": (pod({"phase": "Unknown"}), "0/1", "Unknown", "0"),
    "a reason": (pod({"phase": "Pending", "reason": "Evicted"}), "0/1", "Evicted", "0"),
    "gated": (pod({"phase": "Pending", "conditions": [GATED]}), "0/1", "SchedulingGated", "0"),
    "running": (
        pod(running(container(RUN, ready=True), container(RUN, name="c1", ready=True)), containers=2),
        "2/2",
        "Running",
        "0",
    ),
    "restarted": (
        pod(
            running(
                container(RUN, ended(1, "Error", at=ago(minutes=30, seconds=5)), ready=True, restartCount=3),
                container(RUN, ended(1, "Error", at=ago(hours=5)), name="c1", restartCount=2),
            ),
            containers=2,
        ),
        "1/2",
        "Running",
        "5 (30m ago)",
    ),
    "restarted who knows when": (pod(running(container(RUN, ready=True, restartCount=3))), "1/1", "Running", "3"),
    "restarted in the future": (
        pod(running(container(RUN, ended(1, at=ago(minutes=-5)), ready=True, restartCount=1))),
        "1/1",
        "Running",
        "1 (<invalid> ago)",
    ),
    "crashing": (
        pod(
            running(
                container(waiting("CrashLoopBackOff"), ended(1, "Error", at=ago(minutes=4, seconds=30)), restartCount=7)
            )
        ),
        "0/1",
        "CrashLoopBackOff",
        "7 (4m30s ago)",
    ),
    "creating": (
        pod(running(container(waiting("ContainerCreating")), phase="Pending")),
        "0/1",
        "ContainerCreating",
        "0",
    ),
    "waiting without a reason": (pod(running(container(waiting()), phase="Pending")), "0/1", "Pending", "0"),
    "two reasons": (
        pod(running(container(waiting("First")), container(waiting("Second"), name="c1")), containers=2),
        "0/2",
        "First",
        "0",
    ),
    "completed": (pod(running(container(ended(0, "Completed")), phase="Succeeded")), "0/1", "Completed", "0"),
    "failed": (pod(running(container(ended(1, "Error")), phase="Failed")), "0/1", "Error", "0"),
    "evicted": (pod({"phase": "Failed", "reason": "Evicted"}), "0/1", "Evicted", "0"),
    "an exit code": (pod(running(container(ended(3)), phase="Failed")), "0/1", "ExitCode:3", "0"),
    "a signal": (pod(running(container(ended(137, signal=9)), phase="Failed")), "0/1", "Signal:9", "0"),
    "half done": (
        pod(
            running(container(ended(0, "Completed")), container(RUN, name="c1", ready=True), conditions=READY),
            containers=2,
        ),
        "1/2",
        "Running",
        "0",
    ),
    "half done and not ready": (
        pod(running(container(ended(0, "Completed")), container(RUN, name="c1", ready=True)), containers=2),
        "1/2",
        "NotReady",
        "0",
    ),
    "the first init container runs": (
        pod(
            initializing(
                container(RUN, name="i0"),
                container(waiting("PodInitializing"), name="i1"),
                containerStatuses=[container(waiting("PodInitializing"))],
            ),
            init=("", ""),
        ),
        "0/1",
        "Init:0/2",
        "0",
    ),
    "the second init container runs": (
        pod(
            initializing(
                container(ended(0, "Completed"), name="i0", ready=True),
                container(RUN, ended(1, at=ago(minutes=3)), name="i1", restartCount=4),
            ),
            init=("", ""),
        ),
        "0/1",
        "Init:1/2",
        "4 (3m ago)",
    ),
    "an init container crashes": (
        pod(
            initializing(
                container(waiting("CrashLoopBackOff"), ended(1, "Error", at=ago(minutes=2)), name="i0", restartCount=2)
            ),
            init=("",),
        ),
        "0/1",
        "Init:CrashLoopBackOff",
        "2 (2m ago)",
    ),
    "an init container failed": (
        pod(initializing(container(ended(1, "Error"), name="i0")), init=("",)),
        "0/1",
        "Init:Error",
        "0",
    ),
    "an init container's exit code": (
        pod(initializing(container(ended(2), name="i0")), init=("",)),
        "0/1",
        "Init:ExitCode:2",
        "0",
    ),
    "an init container's signal": (
        pod(initializing(container(ended(2, signal=15), name="i0")), init=("",)),
        "0/1",
        "Init:Signal:15",
        "0",
    ),
    "an init container waits without a reason": (
        pod(initializing(container(waiting(), name="i0")), init=("",)),
        "0/1",
        "Init:0/1",
        "0",
    ),
    "an init container crashes again": (
        pod(
            initializing(
                container(waiting("CrashLoopBackOff"), name="i0", restartCount=9),
                conditions=READY,
                containerStatuses=[container(RUN, ready=True, restartCount=1)],
            ),
            init=("",),
        ),
        "1/1",
        "Init:CrashLoopBackOff",
        "1",
    ),
    "a sidecar": (
        pod(
            initializing(
                container(RUN, ended(1, at=ago(minutes=12)), name="i0", ready=True, started=True, restartCount=2),
                container(ended(0, "Completed"), name="i1", ready=True, restartCount=5),
                phase="Running",
                conditions=READY,
                containerStatuses=[container(RUN, ready=True, restartCount=1)],
            ),
            init=("Always", ""),
        ),
        "2/2",
        "Running",
        "3 (12m ago)",
    ),
    "a sidecar that is not ready": (
        pod(
            initializing(
                container(RUN, name="i0", started=True),
                phase="Running",
                containerStatuses=[container(RUN, ready=True)],
            ),
            init=("Always",),
        ),
        "1/2",
        "Running",
        "0",
    ),
    "a sidecar that starts": (
        pod(
            initializing(
                container(RUN, name="i0", started=False), containerStatuses=[container(waiting("PodInitializing"))]
            ),
            init=("Always", ""),
        ),
        "0/2",
        "Init:0/2",
        "0",
    ),
    "its node is lost": (pod({"phase": "Running", "reason": "NodeLost"}), "0/1", "NodeLost", "0"),
}


@pytest.mark.parametrize("state", STATES)
def test_a_state_has_its_words(state: str) -> None:
    thing, *expected = STATES[state]
    assert pod_cells(thing, NOW) == ["p", *expected, "5m3s", "<none>", "<none>", "<none>", "<none>"]


@pytest.mark.parametrize(
    ("state", "expected"),
    [("running", "Terminating"), ("its node is lost", "Unknown"), ("completed", "Completed"), ("failed", "Error")],
)
def test_a_deleted_pod_is_terminating_unless_it_has_ended_or_is_lost(state: str, expected: str) -> None:
    thing = STATES[state][0]
    leaving = thing | {"metadata": thing["metadata"] | {"deletionTimestamp": ago(seconds=1)}}
    assert pod_cells(leaving, NOW)[2] == expected


@pytest.mark.parametrize(
    ("thing", "expected"),
    [
        (pod({"podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}]}, nodeName="n"), ("10.1.2.3", "n", "<none>")),
        (pod({"podIP": "10.1.2.4"}), ("10.1.2.4", "<none>", "<none>")),
        (pod({"nominatedNodeName": "n2"}), ("<none>", "<none>", "n2")),
    ],
)
def test_wide_columns_tell_where_it_is(thing: Object, expected: tuple[str, ...]) -> None:
    assert tuple(pod_cells(thing, NOW)[5:8]) == expected


def test_readiness_gates_are_counted() -> None:
    told = [{"type": "example.com/a", "status": "True"}, {"type": "example.com/b", "status": "False"}]
    assert pod_cells(pod({"conditions": told}, readinessGates=GATES), NOW)[8] == "1/3"


def test_a_bookmark_has_a_row_too() -> None:
    expected = ["", "0/0", "", "0", "<unknown>", "<none>", "<none>", "<none>", "<none>"]
    assert pod_cells({"metadata": {"resourceVersion": "7"}}, NOW) == expected


def test_rows_of_pods_that_have_ended_say_so() -> None:
    completed, failed = (
        {
            "type": "Completed",
            "status": "True",
            "reason": "Succeeded",
            "message": "The pod has completed successfully.",
        },
        {"type": "Completed", "status": "True", "reason": "Failed", "message": "The pod failed."},
    )
    told = [pod_row_conditions(STATES[state][0]) for state in ("completed", "evicted", "running")]
    assert told == [[completed], [failed], []]


def test_there_is_a_cell_for_each_column() -> None:
    names = ["Name", "Ready", "Status", "Restarts", "Age", "IP", "Node", "Nominated Node", "Readiness Gates"]
    assert [(column.name, column.priority) for column in POD_COLUMNS] == [(name, n > 4) for n, name in enumerate(names)]
