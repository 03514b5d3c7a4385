"""A played cluster: what to do at a time. No clock, no I/O; the same seed makes the same cluster."""

from collections.abc import Iterator
from datetime import datetime
from random import Random
from typing import Final, Literal

from zoneward.kube.names import DOMAIN
from zoneward.sandbox.durations import written
from zoneward.sandbox.play.actions import Action, Bind, Create, Object
from zoneward.sandbox.play.node_lifecycle import NodeLifecycle
from zoneward.sandbox.play.node_pool import NodePool, PlayedNode, PlayedPod
from zoneward.sandbox.play.play_model import (
    AddNodes,
    Autoscale,
    Drain,
    Flap,
    NodeSelection,
    Outage,
    Play,
    PlayStep,
    RemoveNodes,
    RollOut,
    Scale,
    Workload,
)
from zoneward.sandbox.play.timeline import Timeline, counted
from zoneward.sandbox.play.workload_controller import PlayedWorkload, WorkloadController, replicas_at

REPLICAS_ANNOTATION: Final = f"{DOMAIN}/replicas"
"""On a workload's Service: scales the workload."""
Watched = Literal["Pod", "Node", "Service"]


class PlayedCluster:
    """``start`` is the time of day when the play begins; all other times are seconds of the play since.

    The driver does the actions, and reports refusals and changes by other clients: `refused` and `observe`.
    """

    def __init__(self, play: Play, chance: Random, *, start: datetime) -> None:
        self.play = play
        self._timeline = Timeline(chance, start=start, speed=play.speed, events=play.events)
        self._node_pool = NodePool()
        self._workloads = WorkloadController(self._timeline, self._node_pool, play.workloads)
        self._nodes = NodeLifecycle(self._timeline, self._node_pool, self._workloads)
        self._ahead = 0
        self._timeline.after(0, self._set_up)

    def advance(self, now: float) -> list[Action]:
        """What is to be done by then, in order. Time never goes back."""
        return self._timeline.run(now)

    @property
    def next(self) -> float | None:
        """When something is due; None: nothing ever will be, unless others change things."""
        return self._timeline.next

    @property
    def is_over(self) -> bool:
        """Whether all steps have been taken."""
        return not self._ahead

    # --- what others do -----------------------------------------------------------------------------------------------

    def watched(self) -> Iterator[tuple[Watched, str, str]]:
        """The objects for `observe`: kind, namespace and name."""
        for name in self._node_pool.nodes:
            yield "Node", "", name
        for state in self._workloads.by_path.values():
            workload = state.workload
            if workload.service is not None:
                yield "Service", workload.namespace, workload.name
            for name in state.pods:
                yield "Pod", workload.namespace, name

    def observe(self, kind: Watched, namespace: str, name: str, thing: Object | None) -> None:
        """An object as it is now; None: it does not exist."""
        match kind:
            case "Pod":
                pod = self._pod(namespace, name)
                if pod is not None:
                    self._see_pod(pod, thing)
            case "Node":
                node = self._node_pool.nodes.get(name)
                if node is not None:
                    self._see_node(node, thing)
            case "Service":
                path = f"{namespace}/{name}"
                for state in self._workloads.by_path.values():
                    if thing is not None and state.workload.path == path and state.workload.service is not None:
                        annotations = thing["metadata"].get("annotations") or {}
                        self._workloads.read_annotation(state, annotations.get(REPLICAS_ANNOTATION))

    def refused(self, action: Action) -> None:
        """The server would not do it, but not because the object is gone: that is for `observe`."""
        if not isinstance(action, Create | Bind) or action.kind != "Pod":
            return
        pod = self._pod(action.namespace, action.name)
        if pod is None:
            return
        if isinstance(action, Create):
            self._workloads.refuse(pod)
        else:
            # A pod that cannot be bound (another client bound it) makes room for a new one.
            self._workloads.discard(pod)
            self._workloads.reconcile(self._workloads.state_of(pod))

    def _see_pod(self, pod: PlayedPod, thing: Object | None) -> None:
        state = self._workloads.state_of(pod)
        if thing is None:
            self._workloads.forget(pod)
            self._workloads.reconcile(state)
        elif "deletionTimestamp" in thing["metadata"] and not pod.is_terminating:
            self._timeline.report(f"pod {pod.namespace}/{pod.name} was deleted by another client and is replaced")
            self._workloads.end(pod)
            self._workloads.reconcile(state)

    def _see_node(self, node: PlayedNode, thing: Object | None) -> None:
        if thing is None:
            self._timeline.report(f"node {node.name} was deleted by another client")
            self._nodes.forget(node)
            return
        is_cordoned = bool((thing.get("spec") or {}).get("unschedulable"))
        if is_cordoned != node.is_cordoned:
            self._timeline.report(f"node {node.name} was {'' if is_cordoned else 'un'}cordoned by another client")
            self._nodes.cordon(node, is_cordoned=is_cordoned)

    def _pod(self, namespace: str, name: str) -> PlayedPod | None:
        workloads = (state for state in self._workloads.by_path.values() if state.workload.namespace == namespace)
        return next((state.pods[name] for state in workloads if name in state.pods), None)

    # --- the steps ----------------------------------------------------------------------------------------------------

    def _set_up(self) -> None:
        for thing in _missing_namespaces(self.play):
            self._timeline.do(Create(thing=thing))
        # Namespaces first, whatever their place in the file.
        for number, thing in sorted(enumerate(self.play.objects), key=lambda each: each[1]["kind"] != "Namespace"):
            self._timeline.do(Create(thing=thing, place=f"objects[{number}]"))
        for number, workload in enumerate(self.play.workloads):
            if workload.service is not None:
                place = f"workloads[{number}].service"
                self._timeline.do(Create(thing=_service_object(workload), place=place))
        for group in self.play.nodes:
            self._nodes.add(group)
        for state in self._workloads.by_path.values():
            self._workloads.reconcile(state)
        counts = {
            "node": len(self._node_pool.nodes),
            "workload": len(self._workloads.by_path),
            "pod": sum(state.replicas for state in self._workloads.by_path.values()),
        }
        self._timeline.report(", ".join(counted(count, what) for what, count in counts.items()))
        for step in self.play.steps:
            self._plan(step, step.at)

    def _plan(self, step: PlayStep, at: float) -> None:
        self._ahead += 1

        def take() -> None:
            self._ahead -= 1
            again = None if step.every is None else at + step.every
            if again is not None and (step.until is None or again <= step.until):
                self._plan(step, again)
            self._take(step)

        self._timeline.after(at - self._timeline.now, take)

    def _take(self, step: PlayStep) -> None:
        match step.action:
            case Scale(workload=path, replicas=replicas):
                self._timeline.report(f"{path} is scaled to {replicas}")
                state = self._workloads.by_path[path]
                state.curve += 1
                self._workloads.scale(state, replicas)
            case RollOut(workload=path):
                self._timeline.report(f"{path} is rolled out")
                self._workloads.roll_out(self._workloads.by_path[path])
            case Autoscale() as curve:
                self._timeline.report(f"{curve.workload} is autoscaled")
                self._autoscale(curve)
            case Flap() as flap:
                self._flap(flap)
            case Outage(which=which) as outage:
                duration = "for good" if outage.duration is None else f"for {written(outage.duration)}"
                self._timeline.report(f"{which}: silent {duration}")
                self._nodes.fail(self._node_pool.select_nodes(which), outage)
            case Drain(which=which, duration=duration):
                self._timeline.report(f"{which}: drained")
                self._drain(which, duration)
            case AddNodes(group=group):
                self._timeline.report(f"zone {group.zone} gets nodes: {group.count}")
                self._nodes.add(group)
            case RemoveNodes(which=which):
                self._timeline.report(f"{which}: drained and removed")
                self._nodes.remove(self._node_pool.select_nodes(which))

    def _drain(self, which: NodeSelection, duration: float | None) -> None:
        chosen = self._node_pool.select_nodes(which)
        self._nodes.drain(chosen)
        if duration is None:
            return

        def uncordon() -> None:
            self._timeline.report(f"{which}: takes pods again")
            for node in chosen:
                if node.name in self._node_pool.nodes:
                    self._nodes.cordon(node, is_cordoned=False)

        self._timeline.after(duration, uncordon)

    def _autoscale(self, curve: Autoscale) -> None:
        state = self._workloads.by_path[curve.workload]
        state.curve += 1
        number, start = state.curve, self._timeline.now
        end = curve.duration
        if end is None and curve.wave is None:
            end = curve.points[-1].at
        self._ahead += 1

        def follow() -> None:
            elapsed = self._timeline.now - start
            if state.curve != number:
                self._ahead -= 1
                return
            self._rescale(state, replicas_at(curve, elapsed, self._timeline.chance))
            if end is not None and elapsed >= end:
                self._ahead -= 1
                return
            self._timeline.after(curve.each if end is None else min(curve.each, end - elapsed), follow)

        follow()

    def _rescale(self, state: PlayedWorkload, replicas: int) -> None:
        if replicas != state.replicas:
            self._timeline.report(f"{state.workload.path}: {state.replicas} -> {replicas} pods")
            self._workloads.scale(state, replicas)

    def _flap(self, flap: Flap) -> None:
        state = self._workloads.by_path[flap.workload]
        steady = [pod for pod in state.live() if pod.is_reported_ready and not pod.is_flapping]
        chosen = self._timeline.chance.sample(steady, min(flap.pods, len(steady)))
        self._timeline.report(f"{len(chosen)} of {flap.workload} flap for {written(flap.duration)}")
        for pod in chosen:
            self._flap_one(pod, flap, self._timeline.now + flap.duration)

    def _flap_one(self, pod: PlayedPod, flap: Flap, end: float) -> None:
        pod.is_flapping = True

        def turn() -> None:
            if pod.is_terminating or pod.node is None:
                return
            is_last = self._timeline.now >= end
            pod.is_ready = is_last or not pod.is_ready
            pod.is_flapping = not is_last
            self._workloads.kubelets.report_readiness(pod)
            if not is_last:
                self._timeline.after(min(flap.period / 2, end - self._timeline.now), turn)

        turn()


def _missing_namespaces(play: Play) -> Iterator[Object]:
    """Those that the play needs and has no manifests for."""
    needed = [workload.namespace for workload in play.workloads]
    needed += [thing["metadata"].get("namespace", "") for thing in play.objects]
    own = {thing["metadata"]["name"] for thing in play.objects if thing["kind"] == "Namespace"}
    for name in dict.fromkeys(needed):
        if name and name not in own:
            yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _service_object(workload: Workload) -> Object:
    service = workload.service
    assert service is not None
    metadata: Object = {"name": workload.name, "namespace": workload.namespace, "labels": dict(workload.labels)}
    if service.annotations:
        metadata["annotations"] = dict(service.annotations)
    spec: Object = {
        "ports": [{"name": "http", "port": service.port, "protocol": "TCP", "targetPort": "http"}],
        "selector": dict(workload.labels),
        "type": "ClusterIP",
    }
    if service.traffic_distribution:
        spec["trafficDistribution"] = service.traffic_distribution
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
