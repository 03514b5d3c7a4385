"""A played cluster: given the time, what is to be done next. No clock, no I/O; the same seed gives the same cluster."""

from collections.abc import Iterator
from datetime import datetime
from random import Random
from typing import Final, Literal

from zoneward.kube.names import DOMAIN
from zoneward.sandbox.play.actions import Action, Bind, Create, Object
from zoneward.sandbox.play.crews import Crew, Crews
from zoneward.sandbox.play.durations import written
from zoneward.sandbox.play.fleet import Fleet, Node, Pod
from zoneward.sandbox.play.nodes import Nodes
from zoneward.sandbox.play.plays import (
    AddNodes,
    Autoscale,
    Drain,
    Flap,
    Outage,
    Play,
    RemoveNodes,
    RollOut,
    Scale,
    Step,
    Which,
    Workload,
)
from zoneward.sandbox.play.replicas import replicas_at
from zoneward.sandbox.play.stage import Stage, counted

REPLICAS_ANNOTATION: Final = f"{DOMAIN}/replicas"
"""On a workload's Service: whoever writes it scales the workload."""
Watched = Literal["Pod", "Node", "Service"]


class Cluster:
    """``start`` is the time of day when the play begins; all other times are seconds of the play since.

    Whoever does the actions tells what became of them and what others did: `seen` and `refused`.
    """

    def __init__(self, play: Play, chance: Random, *, start: datetime) -> None:
        self.play = play
        self._stage = Stage(chance, start=start, speed=play.speed, events=play.events)
        self._fleet = Fleet()
        self._crews = Crews(self._stage, self._fleet, play.workloads)
        self._nodes = Nodes(self._stage, self._fleet, self._crews)
        self._ahead = 0
        self._stage.after(0, self._set_up)

    def advance(self, now: float) -> list[Action]:
        """What is to be done by then, in order. Time never goes back."""
        return self._stage.run(now)

    @property
    def next(self) -> float | None:
        """When something is due; None: nothing ever will be, unless others change things."""
        return self._stage.next

    @property
    def is_over(self) -> bool:
        """Whether all steps have been taken."""
        return not self._ahead

    # --- what others do -----------------------------------------------------------------------------------------------

    def watched(self) -> Iterator[tuple[Watched, str, str]]:
        """What `seen` wants to know of: kind, namespace and name."""
        for name in self._fleet.nodes:
            yield "Node", "", name
        for crew in self._crews.by_path.values():
            workload = crew.workload
            if workload.service is not None:
                yield "Service", workload.namespace, workload.name
            for name in crew.pods:
                yield "Pod", workload.namespace, name

    def seen(self, kind: Watched, namespace: str, name: str, thing: Object | None) -> None:
        """An object as it is now; None: it is not there."""
        match kind:
            case "Pod":
                pod = self._pod(namespace, name)
                if pod is not None:
                    self._see_pod(pod, thing)
            case "Node":
                node = self._fleet.nodes.get(name)
                if node is not None:
                    self._see_node(node, thing)
            case "Service":
                path = f"{namespace}/{name}"
                for crew in self._crews.by_path.values():
                    if thing is not None and crew.workload.path == path and crew.workload.service is not None:
                        annotations = thing["metadata"].get("annotations") or {}
                        self._crews.read_annotation(crew, annotations.get(REPLICAS_ANNOTATION))

    def refused(self, action: Action) -> None:
        """The server would not do it, but not because the object is gone: that is for `seen`."""
        if not isinstance(action, Create | Bind) or action.kind != "Pod":
            return
        pod = self._pod(action.namespace, action.name)
        if pod is None:
            return
        if isinstance(action, Create):
            self._crews.refuse(pod)
        else:
            # A pod that cannot get its node (somebody else gave it another) makes room for one that is born with it.
            self._crews.discard(pod)
            self._crews.settle(self._crews.crew_of(pod))

    def _see_pod(self, pod: Pod, thing: Object | None) -> None:
        crew = self._crews.crew_of(pod)
        if thing is None:
            self._crews.forget(pod)
            self._crews.settle(crew)
        elif "deletionTimestamp" in thing["metadata"] and not pod.is_terminating:
            self._stage.say(f"pod {pod.namespace}/{pod.name} was deleted by somebody, and is replaced")
            self._crews.end(pod)
            self._crews.settle(crew)

    def _see_node(self, node: Node, thing: Object | None) -> None:
        if thing is None:
            self._stage.say(f"node {node.name} was deleted by somebody")
            self._nodes.forget(node)
            return
        is_cordoned = bool((thing.get("spec") or {}).get("unschedulable"))
        if is_cordoned != node.is_cordoned:
            self._stage.say(f"node {node.name} was {'' if is_cordoned else 'un'}cordoned by somebody")
            self._nodes.cordon(node, is_cordoned=is_cordoned)

    def _pod(self, namespace: str, name: str) -> Pod | None:
        crews = (crew for crew in self._crews.by_path.values() if crew.workload.namespace == namespace)
        return next((crew.pods[name] for crew in crews if name in crew.pods), None)

    # --- the steps ----------------------------------------------------------------------------------------------------

    def _set_up(self) -> None:
        for thing in _missing_namespaces(self.play):
            self._stage.do(Create(thing=thing))
        # Namespaces first, whatever their place in the file.
        for number, thing in sorted(enumerate(self.play.objects), key=lambda each: each[1]["kind"] != "Namespace"):
            self._stage.do(Create(thing=thing, place=f"objects[{number}]"))
        for number, workload in enumerate(self.play.workloads):
            if workload.service is not None:
                place = f"workloads[{number}].service"
                self._stage.do(Create(thing=_service_object(workload), place=place))
        for group in self.play.nodes:
            self._nodes.add(group)
        for crew in self._crews.by_path.values():
            self._crews.settle(crew)
        told = {
            "node": len(self._fleet.nodes),
            "workload": len(self._crews.by_path),
            "pod": sum(crew.replicas for crew in self._crews.by_path.values()),
        }
        self._stage.say(", ".join(counted(count, what) for what, count in told.items()))
        for step in self.play.steps:
            self._plan(step, step.at)

    def _plan(self, step: Step, at: float) -> None:
        self._ahead += 1

        def take() -> None:
            self._ahead -= 1
            again = None if step.every is None else at + step.every
            if again is not None and (step.until is None or again <= step.until):
                self._plan(step, again)
            self._take(step)

        self._stage.after(at - self._stage.now, take)

    def _take(self, step: Step) -> None:
        match step.happening:
            case Scale(workload=path, replicas=replicas):
                self._stage.say(f"{path} is scaled to {replicas}")
                crew = self._crews.by_path[path]
                crew.curve += 1
                self._crews.scale(crew, replicas)
            case RollOut(workload=path):
                self._stage.say(f"{path} is rolled out")
                self._crews.roll_out(self._crews.by_path[path])
            case Autoscale() as curve:
                self._stage.say(f"{curve.workload} is autoscaled")
                self._autoscale(curve)
            case Flap() as flap:
                self._flap(flap)
            case Outage(which=which) as outage:
                lasting = "for good" if outage.duration is None else f"for {written(outage.duration)}"
                self._stage.say(f"{which}: silent {lasting}")
                self._nodes.fail(self._fleet.chosen(which), outage)
            case Drain(which=which, duration=duration):
                self._stage.say(f"{which}: drained")
                self._drain(which, duration)
            case AddNodes(group=group):
                self._stage.say(f"zone {group.zone} gets nodes: {group.count}")
                self._nodes.add(group)
            case RemoveNodes(which=which):
                self._stage.say(f"{which}: drained and removed")
                self._nodes.remove(self._fleet.chosen(which))

    def _drain(self, which: Which, duration: float | None) -> None:
        chosen = self._fleet.chosen(which)
        self._nodes.drain(chosen)
        if duration is None:
            return

        def uncordon() -> None:
            self._stage.say(f"{which}: takes pods again")
            for node in chosen:
                if node.name in self._fleet.nodes:
                    self._nodes.cordon(node, is_cordoned=False)

        self._stage.after(duration, uncordon)

    def _autoscale(self, curve: Autoscale) -> None:
        crew = self._crews.by_path[curve.workload]
        crew.curve += 1
        number, start = crew.curve, self._stage.now
        end = curve.duration
        if end is None and curve.wave is None:
            end = curve.points[-1].at
        self._ahead += 1

        def follow() -> None:
            elapsed = self._stage.now - start
            if crew.curve != number:
                self._ahead -= 1
                return
            self._rescale(crew, replicas_at(curve, elapsed, self._stage.chance))
            if end is not None and elapsed >= end:
                self._ahead -= 1
                return
            self._stage.after(curve.each if end is None else min(curve.each, end - elapsed), follow)

        follow()

    def _rescale(self, crew: Crew, replicas: int) -> None:
        if replicas != crew.replicas:
            self._stage.say(f"{crew.workload.path}: {crew.replicas} -> {replicas} pods")
            self._crews.scale(crew, replicas)

    def _flap(self, flap: Flap) -> None:
        crew = self._crews.by_path[flap.workload]
        steady = [pod for pod in crew.live() if pod.is_told_ready and not pod.is_flapping]
        chosen = self._stage.chance.sample(steady, min(flap.pods, len(steady)))
        self._stage.say(f"{len(chosen)} of {flap.workload} flap for {written(flap.duration)}")
        for pod in chosen:
            self._flap_one(pod, flap, self._stage.now + flap.duration)

    def _flap_one(self, pod: Pod, flap: Flap, end: float) -> None:
        pod.is_flapping = True

        def turn() -> None:
            if pod.is_terminating or pod.node is None:
                return
            is_last = self._stage.now >= end
            pod.is_ready = is_last or not pod.is_ready
            pod.is_flapping = not is_last
            self._crews.kubelets.tell(pod)
            if not is_last:
                self._stage.after(min(flap.period / 2, end - self._stage.now), turn)

        turn()


def _missing_namespaces(play: Play) -> Iterator[Object]:
    """Those that the play needs and has no manifests for."""
    needed = [workload.namespace for workload in play.workloads]
    needed += [thing["metadata"].get("namespace", "") for thing in play.objects]
    given = {thing["metadata"]["name"] for thing in play.objects if thing["kind"] == "Namespace"}
    for name in dict.fromkeys(needed):
        if name and name not in given:
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
