"""The workloads of a play, each with its pods held at a number, as Deployments do it."""

from collections.abc import Iterable, Iterator

from zoneward.kube.input_error import show
from zoneward.sandbox.play import pod_objects
from zoneward.sandbox.play.actions import Bind, Create, Delete, Patch
from zoneward.sandbox.play.fleet import Fleet, Phase, Pod
from zoneward.sandbox.play.kubelets import Kubelets
from zoneward.sandbox.play.plays import MAX_REPLICAS, Workload
from zoneward.sandbox.play.replicas import change_of
from zoneward.sandbox.play.stage import Stage

_PATIENCE = 1.0
"""Seconds until a pod that the server refused is tried again."""


class Crew:
    """A workload and its pods by name, those that are terminating too."""

    def __init__(self, workload: Workload, *, template: str) -> None:
        self.workload, self.template = workload, template
        self.replicas = workload.replicas
        self.pods: dict[str, Pod] = {}
        self.curve = 0
        """Counts what rules the replicas, so that an earlier curve ends."""
        self.asked: str | None = None
        """The annotation, as last seen."""
        self.is_held_back = False

    def live(self) -> list[Pod]:
        return [pod for pod in self.pods.values() if not pod.is_terminating]


class Crews:
    def __init__(self, stage: Stage, fleet: Fleet, workloads: Iterable[Workload]) -> None:
        self._stage, self._fleet = stage, fleet
        self.kubelets = Kubelets(stage, changed=self._changed, gone=self.forget)
        self.by_path = {each.path: Crew(each, template=self._letters(10)) for each in workloads}
        self._waiting: dict[str, Pod] = {}
        """Pods without a node, by namespace and name."""

    def pods(self) -> Iterator[Pod]:
        for crew in self.by_path.values():
            yield from crew.pods.values()

    def crew_of(self, pod: Pod) -> Crew:
        return self.by_path[pod.workload.path]

    def roll_out(self, crew: Crew) -> None:
        crew.template = self._letters(10)
        self.settle(crew)

    def scale(self, crew: Crew, replicas: int) -> None:
        crew.replicas = replicas
        self.settle(crew)

    def read_annotation(self, crew: Crew, text: str | None) -> None:
        """What somebody wrote on the workload's Service, if it is news."""
        if text == crew.asked:
            return
        crew.asked = text
        if text is None:
            return
        if not (text.isascii() and text.isdigit() and len(text) < 6 and int(text) <= MAX_REPLICAS):
            self._stage.say(f"{crew.workload.path}: expected 0 to {MAX_REPLICAS} replicas, got {show(text)}")
            return
        crew.curve += 1
        self._stage.say(f"{crew.workload.path} is scaled to {int(text)}, as its Service asks for")
        self.scale(crew, int(text))

    def settle(self, crew: Crew) -> None:
        """Create and delete pods until nothing is left to do but to wait."""
        while True:
            live = crew.live()
            new = [pod for pod in live if pod.template == crew.template]
            old = [pod for pod in live if pod.template != crew.template]
            ready, unready = [pod for pod in old if pod.is_told_ready], [pod for pod in old if not pod.is_told_ready]
            surge, unavailable = crew.workload.rollout.bounds(crew.replicas)
            change = change_of(
                replicas=crew.replicas,
                surge=surge,
                unavailable=unavailable,
                new=len(new),
                new_ready=sum(pod.is_told_ready for pod in new),
                old=len(old),
                old_ready=len(ready),
            )
            for pod in (
                *_dispensable(new)[: change.delete_new],
                *_dispensable(unready)[: change.delete_old_unready],
                *_dispensable(ready)[: change.delete_old_ready],
            ):
                self.delete(pod)
            created = 0 if crew.is_held_back else change.create
            for _ in range(created):
                self._create(crew)
            if not (created or change.delete_new or change.delete_old_unready or change.delete_old_ready):
                return

    # --- one pod ------------------------------------------------------------------------------------------------------

    def delete(self, pod: Pod, *, component: str = "kubelet") -> None:
        """With grace, if it is on a node; what takes its place is for `settle` to say."""
        if pod.node is None:
            self.discard(pod)
            return
        self._stage.do(Delete(kind="Pod", namespace=pod.namespace, name=pod.name))
        self._stage.event("Pod", pod.namespace, pod.name, "Killing", "Stopping container app", component=component)
        self.end(pod)

    def end(self, pod: Pod) -> None:
        """It has got its deletion timestamp, from whomever."""
        pod.is_terminating = True
        self.kubelets.stop(pod)

    def discard(self, pod: Pod) -> None:
        """Away with it, at once."""
        self._stage.do(Delete(kind="Pod", namespace=pod.namespace, name=pod.name, grace=0))
        self.forget(pod)

    def forget(self, pod: Pod) -> None:
        """It is no more."""
        pod.course += 1
        crew = self.crew_of(pod)
        del crew.pods[pod.name]
        self._waiting.pop(f"{pod.namespace}/{pod.name}", None)
        node = pod.node
        if node is not None:
            node.drop(pod)
            pod.node = None
            self.place_waiting()
        if node is not None and node.is_leaving and not node.pods:
            self._stage.do(Delete(kind="Node", name=node.name))
            self._fleet.nodes.pop(node.name, None)

    def refuse(self, pod: Pod) -> None:
        """The server would not have it: try another one in a while."""
        crew = self.crew_of(pod)
        self.forget(pod)
        if crew.is_held_back:
            return
        crew.is_held_back = True

        def again() -> None:
            crew.is_held_back = False
            self.settle(crew)

        self._stage.after(_PATIENCE, again)

    def place_waiting(self) -> None:
        """There is room that was not there before."""
        for path, pod in list(self._waiting.items()):
            crew = self.crew_of(pod)
            node = self._fleet.place(pod.workload, pod.template, crew.pods.values(), self._stage.chance)
            if node is None:
                continue
            del self._waiting[path]
            node.add(pod)
            self._stage.do(Bind(namespace=pod.namespace, name=pod.name, node=node.name))
            self._begin(pod)

    def _create(self, crew: Crew) -> None:
        workload = crew.workload
        name = self._free_name(crew)
        pod = Pod(number=self._stage.number(), name=name, workload=workload, template=crew.template)
        node = self._fleet.place(workload, crew.template, crew.pods.values(), self._stage.chance)
        crew.pods[name] = pod
        thing = pod_objects.pod_object(
            workload,
            name=name,
            template=crew.template,
            node=node.name if node else None,
            zone=node.zone if node else "",
            region=node.region if node else "",
        )
        self._stage.do(Create(thing=thing))
        if node is not None:
            node.add(pod)
            self._begin(pod)
            return
        self._waiting[f"{pod.namespace}/{name}"] = pod
        problem = self._fleet.refusal(workload)
        status = pod_objects.unschedulable(problem=problem, now=self._stage.stamp())
        self._stage.do(
            Patch(
                kind="Pod",
                namespace=pod.namespace,
                name=name,
                patch=status,
                is_status=True,
            )
        )
        self._stage.event(
            "Pod", pod.namespace, name, "FailedScheduling", problem, component="default-scheduler", is_warning=True
        )

    def _begin(self, pod: Pod) -> None:
        assert pod.node is not None
        message = f"Successfully assigned {pod.namespace}/{pod.name} to {pod.node.name}"
        self._stage.event("Pod", pod.namespace, pod.name, "Scheduled", message, component="default-scheduler")
        self.kubelets.start(pod)

    def _changed(self, pod: Pod) -> None:
        self.settle(self.crew_of(pod))

    def _free_name(self, crew: Crew) -> str:
        while True:
            name = f"{crew.workload.name}-{crew.template}-{self._letters(5)}"
            if name not in crew.pods:
                return name

    def _letters(self, length: int) -> str:
        return "".join(self._stage.chance.choices(pod_objects.LETTERS, k=length))


_PROGRESS = {Phase.PENDING: 0, Phase.CREATING: 1, Phase.RUNNING: 2}


def _dispensable(pods: list[Pod]) -> list[Pod]:
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
            pod.is_told_ready,
            -on_node[pod.node.name] if pod.node else 0,
            -pod.number,
        ),
    )
