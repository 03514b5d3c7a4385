"""The kubelets: pods get addresses, become ready, stop. The kubelet of a node that is down does nothing."""

from collections.abc import Callable

from zoneward.sandbox.play import played_objects
from zoneward.sandbox.play.actions import Delete, Object, Patch
from zoneward.sandbox.play.node_pool import Phase, PlayedNode, PlayedPod
from zoneward.sandbox.play.timeline import Timeline

_FIRST_REPORT = 0.1
"""Seconds until a kubelet has seen a new pod, at most."""
_RUNS_AFTER = 0.5
"""Of the startup: the rest is what the application takes until its probe succeeds."""
_SERVES_FOR = 0.6
"""Of the termination: until then a pod finishes requests."""
_CLEANUP = 1.0
"""Seconds that a kubelet which comes back takes to find out that a pod was deleted."""


class Kubelets:
    """``changed`` is called when what the API says of a pod's readiness did, ``gone`` when a pod is no more."""

    def __init__(
        self, timeline: Timeline, *, changed: Callable[[PlayedPod], None], gone: Callable[[PlayedPod], None]
    ) -> None:
        self._timeline, self._changed, self._gone = timeline, changed, gone

    def start(self, pod: PlayedPod) -> None:
        """Of a pod that has a node; again, after its kubelet was away."""
        pod.course += 1
        startup = pod.workload.startup.draw(self._timeline.chance)
        self._later(pod, min(_FIRST_REPORT, startup * _RUNS_AFTER), self._create)
        self._later(pod, startup * _RUNS_AFTER, self._run)
        self._later(pod, startup, self._succeed)

    def stop(self, pod: PlayedPod) -> None:
        """Of a pod that has a deletion timestamp."""
        pod.course += 1
        termination = pod.workload.termination.draw(self._timeline.chance)
        self._later(pod, termination * _SERVES_FOR, self._end)
        self._later(pod, termination, self._finish)

    def resume(self, node: PlayedNode) -> None:
        """Nothing of what was to happen meanwhile did."""
        for pod in list(node.pods.values()):
            if pod.is_terminating:
                pod.course += 1
                self._later(pod, _CLEANUP, self._finish)
            elif pod.is_ready or pod.is_flapping:
                self.report_readiness(pod)
            else:
                self.start(pod)

    def report_readiness(self, pod: PlayedPod) -> None:
        """Write whether a pod is ready, unless the API server knows."""
        if pod.is_reported_ready == pod.is_ready or not _is_reachable(pod):
            return
        self._patch(pod, played_objects.readiness(is_ready=pod.is_ready, now=self._timeline.stamp()))
        self._note_readiness(pod, pod.is_ready)

    def mark_unreachable(self, pod: PlayedPod) -> None:
        """As the node lifecycle controller does."""
        if not pod.is_reported_ready:
            return
        patch = played_objects.on_silent_node(now=self._timeline.stamp())
        action = Patch(
            kind="Pod",
            namespace=pod.namespace,
            name=pod.name,
            patch=patch,
            is_status=True,
        )
        self._timeline.do(action)
        self._event(pod, "NodeNotReady", "Node is not ready", component="node-controller", is_warning=True)
        self._note_readiness(pod, False)

    # --- a pod's course -----------------------------------------------------------------------------------------------

    def _create(self, pod: PlayedPod) -> None:
        if pod.phase is not Phase.PENDING or pod.node is None:
            return
        pod.phase, pod.begun = Phase.CREATING, self._timeline.stamp()
        host = pod.node.address
        self._patch(pod, played_objects.creating(pod.workload, template=pod.template, host=host, now=pod.begun))

    def _run(self, pod: PlayedPod) -> None:
        if pod.phase is not Phase.CREATING or pod.node is None:
            return
        pod.phase = Phase.RUNNING
        pod.node.give_address(pod)
        now = self._timeline.stamp()
        self._patch(pod, played_objects.running(pod.workload, template=pod.template, address=pod.address, now=now))
        self._event(pod, "Started", "Container started", component="kubelet")

    def _succeed(self, pod: PlayedPod) -> None:
        pod.is_ready = True
        self.report_readiness(pod)

    def _end(self, pod: PlayedPod) -> None:
        if pod.phase is not Phase.RUNNING:
            return
        pod.is_ready = False
        now = self._timeline.stamp()
        self._patch(pod, played_objects.ended(pod.workload, template=pod.template, begun=pod.begun, now=now))
        self._note_readiness(pod, False)

    def _finish(self, pod: PlayedPod) -> None:
        self._timeline.do(Delete(kind="Pod", namespace=pod.namespace, name=pod.name, grace=0))
        self._gone(pod)

    # --- how ----------------------------------------------------------------------------------------------------------

    def _later(self, pod: PlayedPod, seconds: float, act: Callable[[PlayedPod], None]) -> None:
        course = pod.course

        def act_if_still_meant() -> None:
            if pod.course == course and _is_reachable(pod):
                act(pod)

        self._timeline.after(seconds, act_if_still_meant)

    def _patch(self, pod: PlayedPod, patch: Object) -> None:
        self._timeline.do(Patch(kind="Pod", namespace=pod.namespace, name=pod.name, patch=patch, is_status=True))

    def _note_readiness(self, pod: PlayedPod, is_ready: bool) -> None:
        pod.is_reported_ready = is_ready
        self._changed(pod)

    def _event(self, pod: PlayedPod, reason: str, message: str, *, component: str, is_warning: bool = False) -> None:
        self._timeline.event(
            "Pod", pod.namespace, pod.name, reason, message, component=component, is_warning=is_warning
        )


def _is_reachable(pod: PlayedPod) -> bool:
    return pod.node is not None and pod.node.is_alive
