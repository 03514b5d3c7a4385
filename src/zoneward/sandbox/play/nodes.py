"""What happens to the nodes of a play: they come, fall silent, come back, are drained and go."""

from zoneward.sandbox.play import node_objects
from zoneward.sandbox.play.actions import Create, Delete, Object, Patch
from zoneward.sandbox.play.crews import Crew, Crews
from zoneward.sandbox.play.fleet import Fleet, Node
from zoneward.sandbox.play.plays import NodeGroup, Outage
from zoneward.sandbox.play.stage import Stage, counted


class Nodes:
    def __init__(self, stage: Stage, fleet: Fleet, crews: Crews) -> None:
        self._stage, self._fleet, self._crews = stage, fleet, crews

    def add(self, group: NodeGroup) -> None:
        for node in self._fleet.add(group):
            thing = node_objects.node_object(
                name=node.name,
                zone=node.zone,
                region=node.region,
                labels=node.labels,
                cpu=node.cpu,
                pods=node.most_pods,
                cidr=node.cidr,
                address=node.address,
                now=self._stage.stamp(),
            )
            self._stage.do(Create(thing=thing))
        self._crews.place_waiting()

    def fail(self, nodes: list[Node], outage: Outage) -> None:
        """Their kubelets fall silent, those of nodes that are out already for as long as they were to be."""
        out = []
        for node in nodes:
            if node.is_alive:
                node.is_alive = False
                node.outage += 1
                out.append((node, node.outage))

        def still_out() -> list[Node]:
            known = self._fleet.nodes
            return [each for each, number in out if not each.is_alive and each.outage == number and each.name in known]

        def notice() -> None:
            silent = still_out()
            if not silent:
                return
            pods = sum(pod.is_told_ready for node in silent for pod in node.pods.values())
            self._stage.say(f"{counted(len(silent), 'node')} and {counted(pods, 'pod')} no longer ready")
            for node in silent:
                self._declare_silent(node)
            self._stage.after(outage.evicted_after, evict)

        def evict() -> None:
            silent = still_out()
            pods = sum(not pod.is_terminating for node in silent for pod in node.pods.values())
            if pods:
                self._stage.say(f"{counted(pods, 'pod')} of silent nodes replaced")
            self._evict(silent)

        def come_back() -> None:
            back = still_out()
            if back:
                self._stage.say(f"{counted(len(back), 'node')} back")
            for node in back:
                self._come_back(node)

        self._stage.after(outage.noticed_after, notice)
        if outage.duration is not None:
            self._stage.after(outage.duration, come_back)

    def cordon(self, node: Node, *, is_cordoned: bool) -> None:
        if node.is_cordoned == is_cordoned:
            return
        node.is_cordoned = is_cordoned
        self._patch(node, node_objects.cordon(is_cordoned=is_cordoned, now=self._stage.stamp()))
        self._event(node, "NodeNotSchedulable" if is_cordoned else "NodeSchedulable")
        if not is_cordoned:
            self._crews.place_waiting()

    def drain(self, nodes: list[Node]) -> None:
        # All are cordoned before the first pod looks for another place.
        for node in nodes:
            self.cordon(node, is_cordoned=True)
        self._evict(nodes)

    def remove(self, nodes: list[Node]) -> None:
        """Each once its pods are gone; at once, where no kubelet ends them."""
        for node in nodes:
            node.is_leaving = True
        self.drain(nodes)
        for node in nodes:
            if node.name in self._fleet.nodes and not (node.is_alive and node.pods):
                self._stage.do(Delete(kind="Node", name=node.name))
                self.forget(node)

    def forget(self, node: Node) -> None:
        """It is no more, and what was on it is collected."""
        self._fleet.nodes.pop(node.name, None)
        node.is_leaving, node.is_alive = False, False
        crews = self._crews_on([node])
        for pod in list(node.pods.values()):
            self._crews.discard(pod)
        for crew in crews:
            self._crews.settle(crew)

    # --- what controllers do ------------------------------------------------------------------------------------------

    def _declare_silent(self, node: Node) -> None:
        node.is_ready = False
        now = self._stage.stamp()
        patch = {"status": {"conditions": node_objects.unknown_conditions(now=now)}}
        self._patch(node, patch, is_status=True)
        self._patch(node, {"spec": {"taints": node_objects.unreachable_taints(now=now)}})
        self._event(node, "NodeNotReady")
        for pod in list(node.pods.values()):
            self._crews.kubelets.declare_silent(pod)

    def _come_back(self, node: Node) -> None:
        node.is_alive = True
        if not node.is_ready:
            node.is_ready = True
            now = self._stage.stamp()
            patch = {"status": {"conditions": node_objects.ready_conditions(now=now)}}
            self._patch(node, patch, is_status=True)
            self._patch(node, {"spec": {"taints": node_objects.unreachable_no_more()}})
            self._event(node, "NodeReady")
            self._crews.place_waiting()
        self._crews.kubelets.come_back(node)

    def _evict(self, nodes: list[Node]) -> None:
        crews = self._crews_on(nodes)
        for node in nodes:
            for pod in list(node.pods.values()):
                if not pod.is_terminating:
                    self._crews.delete(pod)
        for crew in crews:
            self._crews.settle(crew)

    def _crews_on(self, nodes: list[Node]) -> list[Crew]:
        return list(dict.fromkeys(self._crews.crew_of(pod) for node in nodes for pod in node.pods.values()))

    def _patch(self, node: Node, patch: Object, *, is_status: bool = False) -> None:
        self._stage.do(Patch(kind="Node", name=node.name, patch=patch, is_status=is_status))

    def _event(self, node: Node, reason: str) -> None:
        message = f"Node {node.name} status is now: {reason}"
        component = "node-controller" if reason == "NodeNotReady" else "kubelet"
        self._stage.event("Node", "", node.name, reason, message, component=component)
