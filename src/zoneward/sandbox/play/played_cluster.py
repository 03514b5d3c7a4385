"""The cluster of a play and its actions over time. No clock, no I/O; the same seed gives the same cluster."""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from random import Random

from zoneward.sandbox.durations import written
from zoneward.sandbox.play.play_file import (
    MAX_NODES,
    Flap,
    NodeGroup,
    NodeSelection,
    Outage,
    Play,
    RollOut,
    Scale,
    Step,
)
from zoneward.sandbox.play.pods_and_nodes import PlayedNode, PlayedPod, service_manifest
from zoneward.sandbox.play.timeline import Create, Delete, Key, Patch, Timeline, counted
from zoneward.sandbox.play.workload_controller import WorkloadController
from zoneward.sandbox.server.kinds import Object


class PlayedCluster:
    """``start`` is the real start time; all other times are seconds of the play.

    The driver performs the actions, and reports refusals and changes by other clients: `refused` and `observe`.
    """

    def __init__(self, play: Play, *, start: datetime) -> None:
        self._play = play
        self.timeline = Timeline(Random(play.seed), start=start, speed=play.speed)
        self._nodes: dict[str, PlayedNode] = {}
        self._named: dict[str, int] = {}
        """The last number of a node by prefix."""
        self._workloads = WorkloadController(self.timeline, self._nodes, play.workloads)
        self.timeline.after(0, self._set_up)

    # --- other clients ------------------------------------------------------------------------------------------------

    def observe(self, key: Key, obj: Object | None) -> None:
        """Take the current state of an object of any kind; None if it does not exist."""
        if key in self._workloads.pods:
            self._observe_pod(self._workloads.pods[key], obj)
        elif key[0] == "Node" and key[2] in self._nodes:
            self._observe_node(self._nodes[key[2]], obj)

    def refused(self, key: Key) -> None:
        """The server refused to create the object."""
        if key in self._workloads.pods:
            self._workloads.refused(self._workloads.pods[key])

    def _observe_pod(self, pod: PlayedPod, obj: Object | None) -> None:
        if obj is None:
            self._workloads.forget(pod)
        elif "deletionTimestamp" in obj["metadata"] and not pod.is_terminating:
            self.timeline.report(f"pod {pod.name} was deleted by another client and is replaced")
            self._workloads.end(pod)
        else:
            return
        self._workloads.reconcile(self._workloads.state_of(pod))

    def _observe_node(self, node: PlayedNode, obj: Object | None) -> None:
        if obj is None:
            self.timeline.report(f"node {node.name} was deleted by another client")
            self._forget(node)
            return
        is_cordoned = bool((obj.get("spec") or {}).get("unschedulable"))
        if is_cordoned != node.is_cordoned:
            self.timeline.report(f"node {node.name} was {'' if is_cordoned else 'un'}cordoned by another client")
            self._cordon(node, is_cordoned=is_cordoned)

    # --- the steps ----------------------------------------------------------------------------------------------------

    def _set_up(self) -> None:
        for namespace in dict.fromkeys(workload.namespace for workload in self._play.workloads):
            obj = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            self.timeline.do(Create(("Namespace", "", namespace), obj))
        for index, workload in enumerate(self._play.workloads):
            if workload.service is not None:
                path = f"workloads[{index}].service"
                key = ("Service", workload.namespace, workload.name)
                self.timeline.do(Create(key, service_manifest(workload), path))
        for group in self._play.nodes:
            self._add_nodes(group)
        for state in self._workloads.by_path.values():
            self._workloads.reconcile(state)
        pods = sum(workload.replicas for workload in self._play.workloads)
        counts = ((len(self._nodes), "node"), (len(self._play.workloads), "workload"), (pods, "pod"))
        self.timeline.report(", ".join(counted(count, what) for count, what in counts))
        for step in self._play.steps:
            self._plan(step, step.at)

    def _plan(self, step: Step, at: float) -> None:
        def take() -> None:
            if step.every is not None:
                self._plan(step, at + step.every)
            self._take(step)

        self.timeline.after(at - self.timeline.now, take)

    def _take(self, step: Step) -> None:
        report = self.timeline.report
        match step.action:
            case Scale() as scale:
                self._scale(scale)
            case RollOut(workload=path):
                report(f"{path} is rolled out")
                self._workloads.roll_out(self._workloads.by_path[path])
            case Flap() as flap:
                self._flap(flap)
            case Outage(duration=duration) as outage:
                silent = f"silent {'for good' if duration is None else f'for {written(duration)}'}"
                self._fail(self._selected(outage, silent), outage)
            case NodeGroup() as group:
                report(f"zone {group.zone} gets nodes: {group.count}")
                self._add_nodes(group)
            case NodeSelection() as which:
                self._remove(self._selected(which, "drained and removed"))

    def _scale(self, scale: Scale) -> None:
        state = self._workloads.by_path[scale.workload]
        state.scalings += 1
        scaling, start = state.scalings, state.replicas
        over = f" over {written(scale.over)}" if scale.over else ""
        self.timeline.report(f"{scale.workload} is scaled to {scale.replicas}{over}")

        def resize(replicas: int) -> None:
            if state.scalings == scaling:
                state.replicas = replicas
                self._workloads.reconcile(state)

        if not scale.over:
            resize(scale.replicas)
            return
        change = abs(scale.replicas - start)
        for pods in range(1, change + 1):
            replicas = start + pods if scale.replicas > start else start - pods
            self.timeline.after(scale.over * pods / change, partial(resize, replicas))

    def _flap(self, flap: Flap) -> None:
        state = self._workloads.by_path[flap.workload]
        steady = [pod for pod in state.live() if pod.is_reported_ready and not pod.is_flapping]
        chosen = self.timeline.chance.sample(steady, min(flap.pods, len(steady)))
        self.timeline.report(f"{len(chosen)} of {flap.workload} flap for {written(flap.duration)}")
        for pod in chosen:
            self._flap_one(pod, flap, self.timeline.now + flap.duration)

    def _flap_one(self, pod: PlayedPod, flap: Flap, end: float) -> None:
        def turn() -> None:
            if pod.is_terminating or pod.node is None:
                return
            pod.is_flapping = self.timeline.now < end
            pod.is_ready = not (pod.is_ready and pod.is_flapping)
            self._workloads.report_readiness(pod)
            if pod.is_flapping:
                self.timeline.after(min(flap.period / 2, end - self.timeline.now), turn)

        pod.is_flapping = True
        turn()

    # --- nodes --------------------------------------------------------------------------------------------------------

    def _selected(self, which: NodeSelection, fate: str) -> list[PlayedNode]:
        """The nodes of a step; reports their ``fate``."""
        if which.nodes:
            chosen = [self._nodes[name] for name in which.nodes if name in self._nodes]
        else:
            chosen = [node for node in self._nodes.values() if node.group.zone == which.zone]
        chosen = [node for node in chosen if not node.is_leaving]
        self.timeline.report(f"{which}: {fate if chosen else 'there is none'}")
        return chosen if which.count is None else chosen[::-1][: which.count]

    def _add_nodes(self, group: NodeGroup) -> None:
        """Add nodes up to `MAX_NODES` in all. Their numbers continue after those of the same prefix."""
        for _ in range(min(group.count, MAX_NODES - len(self._nodes))):
            suffix = self._named[group.prefix] = self._named.get(group.prefix, 0) + 1
            used = {node.index for node in self._nodes.values()}
            free = next(candidate for candidate in range(MAX_NODES) if candidate not in used)
            node = PlayedNode(index=free, name=f"{group.prefix}-{suffix}", group=group)
            self._nodes[node.name] = node
            self.timeline.do(Create(node.key, node.manifest(self.timeline.stamp())))
        self._workloads.use_room()

    def _fail(self, nodes: list[PlayedNode], outage: Outage) -> None:
        """Stop the kubelets of nodes, except those of an earlier outage."""
        mark = object()
        out = [node for node in nodes if node.is_alive]
        for node in out:
            node.outage = mark

        def still_out() -> list[PlayedNode]:
            return [node for node in out if node.outage is mark and node.name in self._nodes]

        def notice() -> None:
            silent = still_out()
            pods = sum(pod.is_reported_ready for node in silent for pod in node.pods.values())
            if silent:
                self.timeline.report(f"{counted(len(silent), 'node')} and {counted(pods, 'pod')} no longer ready")
            for node in silent:
                self._set_ready(node, is_ready=False)
                for pod in list(node.pods.values()):
                    self._workloads.mark_unreachable(pod)
            self.timeline.after(outage.evicted_after, evict)

        def evict() -> None:
            silent = still_out()
            pods = sum(not pod.is_terminating for node in silent for pod in node.pods.values())
            if pods:
                self.timeline.report(f"{counted(pods, 'pod')} of silent nodes replaced")
            self._end_pods(silent, self._workloads.delete)

        def resume() -> None:
            back = still_out()
            if back:
                self.timeline.report(f"{counted(len(back), 'node')} back")
            for node in back:
                node.outage = None
                if not node.is_ready:
                    self._set_ready(node, is_ready=True)
                    self._workloads.use_room()
                self._workloads.resume(node)

        self.timeline.after(outage.noticed_after, notice)
        if outage.duration is not None:
            self.timeline.after(outage.duration, resume)

    def _set_ready(self, node: PlayedNode, *, is_ready: bool) -> None:
        node.is_ready = is_ready
        self.timeline.do(Patch(node.key, node.status(self.timeline.stamp())))

    def _cordon(self, node: PlayedNode, *, is_cordoned: bool) -> None:
        if node.is_cordoned != is_cordoned:
            node.is_cordoned = is_cordoned
            self.timeline.do(Patch(node.key, {"spec": {"unschedulable": is_cordoned or None}}))
            self._workloads.use_room()

    def _remove(self, nodes: list[PlayedNode]) -> None:
        """Delete nodes after their pods, or at once if the kubelet does not run."""
        for node in nodes:
            node.is_leaving = True
        # Cordon all nodes before the first pod is scheduled again.
        for node in nodes:
            self._cordon(node, is_cordoned=True)
        self._end_pods(nodes, self._workloads.delete)
        for node in nodes:
            if node.name in self._nodes and not (node.is_alive and node.pods):
                self.timeline.do(Delete(node.key))
                self._forget(node)

    def _forget(self, node: PlayedNode) -> None:
        """Remove a deleted node and its pods."""
        self._nodes.pop(node.name, None)
        node.is_leaving = False
        self._end_pods([node], self._workloads.discard)

    def _end_pods(self, nodes: list[PlayedNode], end: Callable[[PlayedPod], None]) -> None:
        pods = [pod for node in nodes for pod in node.pods.values()]
        states = dict.fromkeys(self._workloads.state_of(pod) for pod in pods)
        for pod in pods:
            end(pod)
        for state in states:
            self._workloads.reconcile(state)
