"""Pods by what Services select."""

from collections.abc import Iterable, Mapping

from zoneward.kube.objects import Pod


class PodIndex:
    """Finds the Pods that a selector selects without a look at all others."""

    def __init__(self, pods: Iterable[Pod]) -> None:
        self._pods: dict[tuple[str, str, str], list[Pod]] = {}
        by_label = self._pods
        for pod in pods:
            namespace = pod.metadata.namespace
            for key, value in (pod.metadata.labels or {}).items():
                label = (namespace, key, value)
                if label in by_label:
                    by_label[label].append(pod)
                else:
                    by_label[label] = [pod]

    def selected(self, namespace: str, selector: Mapping[str, str] | None) -> tuple[Pod, ...]:
        """Pods of the namespace that have all labels of the selector, in their first order.

        An empty selector selects nothing: such a Service has its endpoints from elsewhere.
        """
        if not selector:
            return ()
        found = [self._pods.get((namespace, key, value), ()) for key, value in selector.items()]
        # The rarest label leaves the fewest Pods to look at.
        return tuple(pod for pod in min(found, key=len) if selector.items() <= (pod.metadata.labels or {}).items())
