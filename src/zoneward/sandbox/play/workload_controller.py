"""The workloads of a play with their replicas, like a Deployment, and the kubelets of their pods."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from zoneward.sandbox.durations import parse_span
from zoneward.sandbox.play.play_file import Workload
from zoneward.sandbox.play.pods_and_nodes import PlayedNode, PlayedPod, choose_node
from zoneward.sandbox.play.timeline import Create, Delete, Key, Patch, Timeline
from zoneward.sandbox.server.resource_registry import NAME_ALPHABET

_PATIENCE: Final = 1.0
"""Seconds until a refused pod is created again."""
_RUNS_AFTER: Final = 0.5
"""Share of the startup; the rest is the time until the application's probe succeeds."""
_SERVES_FOR: Final = 0.6
"""Share of the termination in which a pod finishes requests."""
_CLEANUP: Final = 1.0
"""Seconds until a restarted kubelet sees that a pod was deleted."""


class PlayedWorkload:
    """A workload and its pods by name, including terminating ones."""

    def __init__(self, workload: Workload, *, template: str) -> None:
        self.workload, self.template, self.replicas = workload, template, workload.replicas
        self.pods: dict[str, PlayedPod] = {}
        self.scalings = 0
        """Incremented by each scaling step, which ends an earlier one."""
        self.lacks_room = False

    def live(self) -> list[PlayedPod]:
        return [pod for pod in self.pods.values() if not pod.is_terminating]


class WorkloadController:
    """``nodes`` is shared with the played cluster."""

    def __init__(self, timeline: Timeline, nodes: dict[str, PlayedNode], workloads: Iterable[Workload]) -> None:
        self._timeline, self._nodes = timeline, nodes
        self.by_path = {workload.path: PlayedWorkload(workload, template=self._letters(10)) for workload in workloads}
        self.pods: dict[Key, PlayedPod] = {}

    def state_of(self, pod: PlayedPod) -> PlayedWorkload:
        return self.by_path[pod.workload.path]

    def roll_out(self, state: PlayedWorkload) -> None:
        state.template = self._letters(10)
        self.reconcile(state)

    def reconcile(self, state: PlayedWorkload) -> None:
        """Create and delete pods until only waiting is left."""
        is_changed = True
        while is_changed:
            live = state.live()
            new = [pod for pod in live if pod.template == state.template]
            ready = [pod for pod in live if pod.template != state.template and pod.is_reported_ready]
            unready = [pod for pod in live if pod.template != state.template and not pod.is_reported_ready]
            surge, unavailable = state.workload.rollout.bounds(state.replicas)
            create, *deleted = change_of(
                replicas=state.replicas,
                surge=surge,
                unavailable=unavailable,
                new=(len(new), sum(pod.is_reported_ready for pod in new)),
                old=(len(ready) + len(unready), len(ready)),
            )
            for pods, count in zip((new, unready, ready), deleted, strict=True):
                for pod in _dispensable(pods)[:count]:
                    self.delete(pod)
            created = [self._create(state) for _ in range(create)]
            state.lacks_room = not all(created)
            is_changed = any(created) or any(deleted)

    def use_room(self) -> None:
        """Create the pods that no node had room for."""
        for state in self.by_path.values():
            if state.lacks_room:
                self.reconcile(state)

    # --- one pod ------------------------------------------------------------------------------------------------------

    def delete(self, pod: PlayedPod) -> None:
        """Delete a pod with grace; `reconcile` replaces it."""
        if not pod.is_terminating:
            self._timeline.do(Delete(pod.key))
            self.end(pod)

    def end(self, pod: PlayedPod) -> None:
        """The kubelet sees the deletion timestamp of a pod."""
        pod.is_terminating = True
        pod.course += 1
        termination = parse_span(pod.workload.termination).draw(self._timeline.chance)
        self._later(pod, termination * _SERVES_FOR, self._end_containers)
        self._later(pod, termination, self.discard)

    def discard(self, pod: PlayedPod) -> None:
        """Delete a pod at once."""
        self._timeline.do(Delete(pod.key, grace=0))
        self.forget(pod)

    def forget(self, pod: PlayedPod) -> None:
        """Remove a deleted pod."""
        pod.course += 1
        del self.pods[pod.key], self.state_of(pod).pods[pod.name]
        node, pod.node = pod.node, None
        if node is None:
            return
        node.drop(pod)
        self.use_room()
        if node.is_leaving and not node.pods:
            self._timeline.do(Delete(node.key))
            self._nodes.pop(node.name, None)

    def refused(self, pod: PlayedPod) -> None:
        """Retry later after the server refused to create a pod."""
        self.forget(pod)
        self._timeline.after(_PATIENCE, lambda: self.reconcile(self.state_of(pod)))

    def _create(self, state: PlayedWorkload) -> bool:
        """Whether a node has room."""
        workload, template, pods, chance = state.workload, state.template, state.pods, self._timeline.chance
        name = ""
        while not name or name in pods:
            name = f"{workload.name}-{template}-{self._letters(5)}"
        index = next(self._timeline.numbers)
        node = choose_node(workload, template, self._nodes.values(), pods.values(), chance)
        if node is None:
            return False
        pod = pods[name] = PlayedPod(index=index, name=name, workload=workload, template=template)
        self.pods[pod.key] = pod
        node.add(pod)
        self._timeline.do(Create(pod.key, pod.manifest(node)))
        self._start(pod)
        return True

    # --- kubelets: that of a node that is down does nothing -----------------------------------------------------------

    def resume(self, node: PlayedNode) -> None:
        """The kubelet of a node is back: nothing of what was to happen meanwhile did."""
        for pod in list(node.pods.values()):
            if pod.is_terminating:
                pod.course += 1
                self._later(pod, _CLEANUP, self.discard)
            elif pod.is_ready or pod.is_flapping:
                self.report_readiness(pod)
            else:
                self._start(pod)

    def report_readiness(self, pod: PlayedPod) -> None:
        """Write whether a pod is ready, unless the API server knows."""
        if pod.is_reported_ready != pod.is_ready and pod.is_reachable:
            self._write_status(pod, Ready=pod.is_ready, ContainersReady=pod.is_ready)

    def mark_unreachable(self, pod: PlayedPod) -> None:
        """As the node lifecycle controller does; the status of containers stays."""
        if pod.is_reported_ready:
            self._write_status(pod, Ready=False)

    def _start(self, pod: PlayedPod) -> None:
        """Again, after its kubelet was away."""
        pod.course += 1
        startup = parse_span(pod.workload.startup).draw(self._timeline.chance)
        self._later(pod, startup * _RUNS_AFTER, self._run_containers)
        self._later(pod, startup, self._succeed)

    def _run_containers(self, pod: PlayedPod) -> None:
        if not pod.address and pod.node is not None:
            pod.node.give_address(pod)
            pod.started_at = self._timeline.stamp()
            self._write_status(pod, Initialized=True, PodScheduled=True, Ready=False, ContainersReady=False)

    def _succeed(self, pod: PlayedPod) -> None:
        pod.is_ready = True
        self.report_readiness(pod)

    def _end_containers(self, pod: PlayedPod) -> None:
        if pod.address:
            pod.has_ended, pod.is_ready = True, False
            self._write_status(pod, Ready=False, ContainersReady=False)

    def _later(self, pod: PlayedPod, seconds: float, act: Callable[[PlayedPod], None]) -> None:
        course = pod.course

        def act_if_still_meant() -> None:
            if pod.course == course and pod.is_reachable:
                act(pod)

        self._timeline.after(seconds, act_if_still_meant)

    def _write_status(self, pod: PlayedPod, *, Ready: bool, **changed: bool) -> None:  # noqa: N803  (conditions)
        self._timeline.do(Patch(pod.key, pod.status(self._timeline.stamp(), Ready=Ready, **changed)))
        if pod.is_reported_ready != Ready:
            pod.is_reported_ready = Ready
            self.reconcile(self.state_of(pod))

    def _letters(self, length: int) -> str:
        return "".join(self._timeline.chance.choices(NAME_ALPHABET, k=length))


def _dispensable(pods: list[PlayedPod]) -> list[PlayedPod]:
    """Those to be deleted first, first: as a ReplicaSet's controller ranks them."""
    on_node = Counter(pod.node for pod in pods)
    return sorted(pods, key=lambda pod: (bool(pod.address), pod.is_reported_ready, -on_node[pod.node], -pod.index))


def change_of(
    *, replicas: int, surge: int, unavailable: int, new: tuple[int, int], old: tuple[int, int]
) -> tuple[int, int, int, int]:
    """How many pods to create, and to delete: new ones, old ones that are not ready, old ones that are.

    ``new`` and ``old`` pods (those of an earlier template), and how many of them are ready; terminating ones count
    nowhere. No more than ``replicas`` + ``surge`` pods, and while there are old ones, no ready pod is deleted that
    makes fewer than ``replicas`` - ``unavailable``.
    """
    delete_new = max(0, new[0] - replicas)
    new_left, kept_ready = new[0] - delete_new, min(new[1], replicas)
    create = max(0, min(replicas - new_left, replicas + surge - new_left - old[0] if old[0] else replicas))
    spare = max(0, kept_ready + old[0] - (replicas - unavailable))
    unready = min(old[0] - old[1], spare)
    return create, delete_new, unready, min(old[1], spare - unready)
