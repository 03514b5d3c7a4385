"""The workloads of a play, each with its pods held at a number, as Deployments do it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import cos, pi
from random import Random

from zoneward.kube.input_error import show
from zoneward.sandbox.play import played_objects
from zoneward.sandbox.play.actions import Bind, Create, Delete, Patch
from zoneward.sandbox.play.kubelets import Kubelets
from zoneward.sandbox.play.node_pool import NodePool, Phase, PlayedPod
from zoneward.sandbox.play.play_model import MAX_REPLICAS, Autoscale, CurvePoint, Workload
from zoneward.sandbox.play.timeline import Timeline

_PATIENCE = 1.0
"""Seconds until a pod that the server refused is tried again."""


class PlayedWorkload:
    """A workload and its pods by name, those that are terminating too."""

    def __init__(self, workload: Workload, *, template: str) -> None:
        self.workload, self.template = workload, template
        self.replicas = workload.replicas
        self.pods: dict[str, PlayedPod] = {}
        self.curve = 0
        """Counts what rules the replicas, so that an earlier curve ends."""
        self.annotation: str | None = None
        """The annotation, as last seen."""
        self.is_backing_off = False

    def live(self) -> list[PlayedPod]:
        return [pod for pod in self.pods.values() if not pod.is_terminating]


class WorkloadController:
    def __init__(self, timeline: Timeline, node_pool: NodePool, workloads: Iterable[Workload]) -> None:
        self._timeline, self._node_pool = timeline, node_pool
        self.kubelets = Kubelets(timeline, changed=self._changed, gone=self.forget)
        self.by_path = {each.path: PlayedWorkload(each, template=self._letters(10)) for each in workloads}
        self._waiting: dict[str, PlayedPod] = {}
        """Pods without a node, by namespace and name."""

    def pods(self) -> Iterator[PlayedPod]:
        for state in self.by_path.values():
            yield from state.pods.values()

    def state_of(self, pod: PlayedPod) -> PlayedWorkload:
        return self.by_path[pod.workload.path]

    def roll_out(self, state: PlayedWorkload) -> None:
        state.template = self._letters(10)
        self.reconcile(state)

    def scale(self, state: PlayedWorkload, replicas: int) -> None:
        state.replicas = replicas
        self.reconcile(state)

    def read_annotation(self, state: PlayedWorkload, text: str | None) -> None:
        """Scale the workload if the annotation on its Service has changed."""
        if text == state.annotation:
            return
        state.annotation = text
        if text is None:
            return
        if not (text.isascii() and text.isdigit() and len(text) < 6 and int(text) <= MAX_REPLICAS):
            self._timeline.report(f"{state.workload.path}: expected 0 to {MAX_REPLICAS} replicas, got {show(text)}")
            return
        state.curve += 1
        self._timeline.report(f"{state.workload.path} is scaled to {int(text)}, as its Service says")
        self.scale(state, int(text))

    def reconcile(self, state: PlayedWorkload) -> None:
        """Create and delete pods until nothing is left to do but to wait."""
        while True:
            live = state.live()
            new = [pod for pod in live if pod.template == state.template]
            old = [pod for pod in live if pod.template != state.template]
            ready, unready = (
                [pod for pod in old if pod.is_reported_ready],
                [pod for pod in old if not pod.is_reported_ready],
            )
            surge, unavailable = state.workload.rollout.bounds(state.replicas)
            change = change_of(
                replicas=state.replicas,
                surge=surge,
                unavailable=unavailable,
                new=len(new),
                new_ready=sum(pod.is_reported_ready for pod in new),
                old=len(old),
                old_ready=len(ready),
            )
            for pod in (
                *_dispensable(new)[: change.delete_new],
                *_dispensable(unready)[: change.delete_old_unready],
                *_dispensable(ready)[: change.delete_old_ready],
            ):
                self.delete(pod)
            created = 0 if state.is_backing_off else change.create
            for _ in range(created):
                self._create(state)
            if not (created or change.delete_new or change.delete_old_unready or change.delete_old_ready):
                return

    # --- one pod ------------------------------------------------------------------------------------------------------

    def delete(self, pod: PlayedPod, *, component: str = "kubelet") -> None:
        """With grace, if it is on a node; what takes its place is for `settle` to say."""
        if pod.node is None:
            self.discard(pod)
            return
        self._timeline.do(Delete(kind="Pod", namespace=pod.namespace, name=pod.name))
        self._timeline.event("Pod", pod.namespace, pod.name, "Killing", "Stopping container app", component=component)
        self.end(pod)

    def end(self, pod: PlayedPod) -> None:
        """The pod has a deletion timestamp."""
        pod.is_terminating = True
        self.kubelets.stop(pod)

    def discard(self, pod: PlayedPod) -> None:
        """Away with it, at once."""
        self._timeline.do(Delete(kind="Pod", namespace=pod.namespace, name=pod.name, grace=0))
        self.forget(pod)

    def forget(self, pod: PlayedPod) -> None:
        """It is no more."""
        pod.course += 1
        state = self.state_of(pod)
        del state.pods[pod.name]
        self._waiting.pop(f"{pod.namespace}/{pod.name}", None)
        node = pod.node
        if node is not None:
            node.drop(pod)
            pod.node = None
            self.place_waiting()
        if node is not None and node.is_leaving and not node.pods:
            self._timeline.do(Delete(kind="Node", name=node.name))
            self._node_pool.nodes.pop(node.name, None)

    def refuse(self, pod: PlayedPod) -> None:
        """The server refused the pod: try another one later."""
        state = self.state_of(pod)
        self.forget(pod)
        if state.is_backing_off:
            return
        state.is_backing_off = True

        def again() -> None:
            state.is_backing_off = False
            self.reconcile(state)

        self._timeline.after(_PATIENCE, again)

    def place_waiting(self) -> None:
        """Place pods that wait for a node."""
        for path, pod in list(self._waiting.items()):
            state = self.state_of(pod)
            node = self._node_pool.place(pod.workload, pod.template, state.pods.values(), self._timeline.chance)
            if node is None:
                continue
            del self._waiting[path]
            node.add(pod)
            self._timeline.do(Bind(namespace=pod.namespace, name=pod.name, node=node.name))
            self._begin(pod)

    def _create(self, state: PlayedWorkload) -> None:
        workload = state.workload
        name = self._free_name(state)
        pod = PlayedPod(number=self._timeline.number(), name=name, workload=workload, template=state.template)
        node = self._node_pool.place(workload, state.template, state.pods.values(), self._timeline.chance)
        state.pods[name] = pod
        thing = played_objects.pod_object(
            workload,
            name=name,
            template=state.template,
            node=node.name if node else None,
            zone=node.zone if node else "",
            region=node.region if node else "",
        )
        self._timeline.do(Create(thing=thing))
        if node is not None:
            node.add(pod)
            self._begin(pod)
            return
        self._waiting[f"{pod.namespace}/{name}"] = pod
        problem = self._node_pool.refusal(workload)
        status = played_objects.unschedulable(problem=problem, now=self._timeline.stamp())
        self._timeline.do(
            Patch(
                kind="Pod",
                namespace=pod.namespace,
                name=name,
                patch=status,
                is_status=True,
            )
        )
        self._timeline.event(
            "Pod", pod.namespace, name, "FailedScheduling", problem, component="default-scheduler", is_warning=True
        )

    def _begin(self, pod: PlayedPod) -> None:
        assert pod.node is not None
        message = f"Successfully assigned {pod.namespace}/{pod.name} to {pod.node.name}"
        self._timeline.event("Pod", pod.namespace, pod.name, "Scheduled", message, component="default-scheduler")
        self.kubelets.start(pod)

    def _changed(self, pod: PlayedPod) -> None:
        self.reconcile(self.state_of(pod))

    def _free_name(self, state: PlayedWorkload) -> str:
        while True:
            name = f"{state.workload.name}-{state.template}-{self._letters(5)}"
            if name not in state.pods:
                return name

    def _letters(self, length: int) -> str:
        return "".join(self._timeline.chance.choices(played_objects.LETTERS, k=length))


_PROGRESS = {Phase.PENDING: 0, Phase.CREATING: 1, Phase.RUNNING: 2}


def _dispensable(pods: list[PlayedPod]) -> list[PlayedPod]:
    """Those to be deleted first, first: as a ReplicaSet's controller ranks them."""
    on_node: dict[str, int] = {}
    for pod in pods:
        if pod.node is not None:
            on_node[pod.node.name] = on_node.get(pod.node.name, 0) + 1
    return sorted(
        pods,
        key=lambda pod: (
            pod.node is not None,
            _PROGRESS[pod.phase],
            pod.is_reported_ready,
            -on_node[pod.node.name] if pod.node else 0,
            -pod.number,
        ),
    )


# --- how many pods come and go ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaChange:
    """Numbers of pods to create and to delete."""

    create: int = 0
    delete_new: int = 0
    delete_old_unready: int = 0
    delete_old_ready: int = 0

    def __bool__(self) -> bool:
        return bool(self.create or self.delete_new or self.delete_old_unready or self.delete_old_ready)


def change_of(
    *, replicas: int, surge: int, unavailable: int, new: int, new_ready: int, old: int, old_ready: int
) -> ReplicaChange:
    """What to do next. Pods that are terminating count nowhere; ``old`` ones are of an earlier template.

    No more than ``replicas`` + ``surge`` pods, and while there are old ones, no ready pod is deleted that makes fewer
    than ``replicas`` - ``unavailable``.
    """
    delete_new = max(0, new - replicas)
    new, new_ready = new - delete_new, min(new_ready, replicas)
    create = max(0, min(replicas - new, replicas + surge - new - old if old else replicas))
    spare = max(0, new_ready + old - (replicas - unavailable))
    unready = min(old - old_ready, spare)
    ready = min(old_ready, spare - unready)
    return ReplicaChange(create=create, delete_new=delete_new, delete_old_unready=unready, delete_old_ready=ready)


def replicas_at(curve: Autoscale, elapsed: float, chance: Random) -> int:
    """What the curve says so many seconds after its start. Draws one number, whatever the noise."""
    if curve.wave is not None:
        low, high = curve.wave.low, curve.wave.high
        exact = low + (high - low) * (1 - cos(2 * pi * elapsed / curve.wave.period)) / 2
    else:
        exact = _between(curve.points, elapsed)
    noisy = exact * (1 + curve.noise * chance.uniform(-1, 1))
    return min(MAX_REPLICAS, max(0, round(noisy)))


def _between(points: tuple[CurvePoint, ...], elapsed: float) -> float:
    before, after = points[0], points[-1]
    for point in points:
        if point.at <= elapsed:
            before = point
        else:
            after = point
            break
    if after.at <= before.at or elapsed <= before.at:
        return before.replicas
    return before.replicas + (after.replicas - before.replicas) * (elapsed - before.at) / (after.at - before.at)
