"""What happens to the nodes of a play: they come, fall silent, come back, are drained and go."""

from zoneward.sandbox.play import played_objects
from zoneward.sandbox.play.actions import Create, Delete, Object, Patch
from zoneward.sandbox.play.node_pool import NodePool, PlayedNode
from zoneward.sandbox.play.play_model import NodeGroup, Outage
from zoneward.sandbox.play.timeline import Timeline, counted
from zoneward.sandbox.play.workload_controller import PlayedWorkload, WorkloadController


class NodeLifecycle:
    def __init__(self, timeline: Timeline, node_pool: NodePool, workloads: WorkloadController) -> None:
        self._timeline, self._node_pool, self._workloads = timeline, node_pool, workloads

    def add(self, group: NodeGroup) -> None:
        for node in self._node_pool.add(group):
            thing = played_objects.node_object(
                name=node.name,
                zone=node.zone,
                region=node.region,
                labels=node.labels,
                cpu=node.cpu,
                pods=node.most_pods,
                cidr=node.cidr,
                address=node.address,
                now=self._timeline.stamp(),
            )
            self._timeline.do(Create(thing=thing))
        self._workloads.place_waiting()

    def fail(self, nodes: list[PlayedNode], outage: Outage) -> None:
        """Their kubelets fall silent, those of nodes that are out already for as long as they were to be."""
        out = []
        for node in nodes:
            if node.is_alive:
                node.is_alive = False
                node.outage += 1
                out.append((node, node.outage))

        def still_out() -> list[PlayedNode]:
            known = self._node_pool.nodes
            return [each for each, number in out if not each.is_alive and each.outage == number and each.name in known]

        def notice() -> None:
            silent = still_out()
            if not silent:
                return
            pods = sum(pod.is_reported_ready for node in silent for pod in node.pods.values())
            self._timeline.report(f"{counted(len(silent), 'node')} and {counted(pods, 'pod')} no longer ready")
            for node in silent:
                self._declare_silent(node)
            self._timeline.after(outage.evicted_after, evict)

        def evict() -> None:
            silent = still_out()
            pods = sum(not pod.is_terminating for node in silent for pod in node.pods.values())
            if pods:
                self._timeline.report(f"{counted(pods, 'pod')} of silent nodes replaced")
            self._evict(silent)

        def resume() -> None:
            back = still_out()
            if back:
                self._timeline.report(f"{counted(len(back), 'node')} back")
            for node in back:
                self._resume(node)

        self._timeline.after(outage.noticed_after, notice)
        if outage.duration is not None:
            self._timeline.after(outage.duration, resume)

    def cordon(self, node: PlayedNode, *, is_cordoned: bool) -> None:
        if node.is_cordoned == is_cordoned:
            return
        node.is_cordoned = is_cordoned
        self._patch(node, played_objects.cordon(is_cordoned=is_cordoned, now=self._timeline.stamp()))
        self._event(node, "NodeNotSchedulable" if is_cordoned else "NodeSchedulable")
        if not is_cordoned:
            self._workloads.place_waiting()

    def drain(self, nodes: list[PlayedNode]) -> None:
        # All are cordoned before the first pod looks for another place.
        for node in nodes:
            self.cordon(node, is_cordoned=True)
        self._evict(nodes)

    def remove(self, nodes: list[PlayedNode]) -> None:
        """Each once its pods are gone; at once, where no kubelet ends them."""
        for node in nodes:
            node.is_leaving = True
        self.drain(nodes)
        for node in nodes:
            if node.name in self._node_pool.nodes and not (node.is_alive and node.pods):
                self._timeline.do(Delete(kind="Node", name=node.name))
                self.forget(node)

    def forget(self, node: PlayedNode) -> None:
        """It is no more, and what was on it is collected."""
        self._node_pool.nodes.pop(node.name, None)
        node.is_leaving, node.is_alive = False, False
        workloads = self._crews_on([node])
        for pod in list(node.pods.values()):
            self._workloads.discard(pod)
        for state in workloads:
            self._workloads.reconcile(state)

    # --- what controllers do ------------------------------------------------------------------------------------------

    def _declare_silent(self, node: PlayedNode) -> None:
        node.is_ready = False
        now = self._timeline.stamp()
        patch = {"status": {"conditions": played_objects.node_unknown_conditions(now=now)}}
        self._patch(node, patch, is_status=True)
        self._patch(node, {"spec": {"taints": played_objects.unreachable_taints(now=now)}})
        self._event(node, "NodeNotReady")
        for pod in list(node.pods.values()):
            self._workloads.kubelets.mark_unreachable(pod)

    def _resume(self, node: PlayedNode) -> None:
        node.is_alive = True
        if not node.is_ready:
            node.is_ready = True
            now = self._timeline.stamp()
            patch = {"status": {"conditions": played_objects.node_ready_conditions(now=now)}}
            self._patch(node, patch, is_status=True)
            self._patch(node, {"spec": {"taints": played_objects.unreachable_no_more()}})
            self._event(node, "NodeReady")
            self._workloads.place_waiting()
        self._workloads.kubelets.resume(node)

    def _evict(self, nodes: list[PlayedNode]) -> None:
        workloads = self._crews_on(nodes)
        for node in nodes:
            for pod in list(node.pods.values()):
                if not pod.is_terminating:
                    self._workloads.delete(pod)
        for state in workloads:
            self._workloads.reconcile(state)

    def _crews_on(self, nodes: list[PlayedNode]) -> list[PlayedWorkload]:
        return list(dict.fromkeys(self._workloads.state_of(pod) for node in nodes for pod in node.pods.values()))

    def _patch(self, node: PlayedNode, patch: Object, *, is_status: bool = False) -> None:
        self._timeline.do(Patch(kind="Node", name=node.name, patch=patch, is_status=is_status))

    def _event(self, node: PlayedNode, reason: str) -> None:
        message = f"Node {node.name} status is now: {reason}"
        component = "node-controller" if reason == "NodeNotReady" else "kubelet"
        self._timeline.event("Node", "", node.name, reason, message, component=component)
