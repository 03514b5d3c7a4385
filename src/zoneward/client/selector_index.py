"""An index of the Pods that a Service selects and the Services that select a Pod, updated while both change.

Pods with the same labels in one namespace, such as those of a ReplicaSet, form a group. A Service is matched with a
group once, when either appears. A selector is registered under its label with the fewest selectors, and below that
under a second label, so that a lookup by labels checks few Services that do not match.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Final, TypeVar, cast

from zoneward.kube.objects import ObjectKey

_Label = tuple[str, str, str]
"""Namespace, label and value."""
_Second = tuple[str | None, str | None]
"""Another label of a selector and its value; both are None for a selector with one label."""
_Selectors = dict[ObjectKey, Mapping[str, str]]
_A = TypeVar("_A")
_B = TypeVar("_B")
_C = TypeVar("_C")
_NONE: Final[Mapping[str, str]] = {}


class _Group:
    """Pods of a namespace with the same labels, in the order of their addition, and the Services that select them."""

    __slots__ = ("labels", "namespace", "pods", "services")

    def __init__(self, namespace: str, labels: dict[str, str]) -> None:
        self.namespace = namespace
        self.labels = labels
        self.pods: dict[ObjectKey, None] = {}
        self.services: set[ObjectKey] = set()


class SelectorIndex:
    """Maps keys of Pods to keys of Services and back, by labels and selectors."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, frozenset[tuple[str, str]]], _Group] = {}
        self._by_labels: dict[int, _Group] = {}
        """By the identity of the dictionary that `add_pod` returned, which lives as long as the group."""
        self._groups_with: dict[_Label, dict[_Group, None]] = {}
        self._registered: dict[ObjectKey, tuple[_Label, _Second]] = {}
        self._by_label: dict[_Label, dict[str | None, dict[str | None, _Selectors]]] = {}
        self._counts: dict[_Label, int] = {}
        self._selected: dict[ObjectKey, dict[_Group, None]] = {}

    def services_of(self, namespace: str, labels: Mapping[str, str] | None) -> list[ObjectKey]:
        """The Services that select a Pod with these labels, sorted; no such Pod need exist."""
        group = self._by_labels.get(id(labels))
        if group is not None and group.labels is labels and group.namespace == namespace:
            services = list(group.services)
        else:
            services = list(self._matching(namespace, labels or _NONE))
        return services if len(services) < 2 else sorted(services)

    def pods_of(self, service: ObjectKey) -> list[ObjectKey]:
        """The Pods that a Service selects; none if it has no selector."""
        groups = self._selected.get(service, ())
        return [pod for group in groups for pod in group.pods]

    def add_pod(self, pod: ObjectKey, labels: dict[str, str] | None) -> dict[str, str]:
        """Add a Pod. Returns the equal labels of the first Pod that has them, so that all can share one copy."""
        namespace, labels = pod[0], {} if labels is None else labels
        identity = (namespace, frozenset(labels.items()))
        group = self._groups.get(identity)
        if group is None:
            group = self._groups[identity] = _Group(namespace, labels)
            self._by_labels.setdefault(id(labels), group)
            for key, value in labels.items():
                self._groups_with.setdefault((namespace, key, value), {})[group] = None
            group.services.update(self._matching(namespace, labels))
            for service in group.services:
                self._selected[service][group] = None
        group.pods[pod] = None
        return group.labels

    def remove_pod(self, pod: ObjectKey, labels: Mapping[str, str] | None) -> None:
        """Remove a Pod. ``labels`` are those with which it was added."""
        namespace, labels = pod[0], labels or _NONE
        identity = (namespace, frozenset(labels.items()))
        group = self._groups[identity]
        del group.pods[pod]
        if group.pods:
            return
        del self._groups[identity]
        if self._by_labels.get(id(group.labels)) is group:
            del self._by_labels[id(group.labels)]
        for service in group.services:
            del self._selected[service][group]
        for key, value in labels.items():
            pair = (namespace, key, value)
            del self._groups_with[pair][group]
            _delete_empty(self._groups_with, pair)

    def add_service(self, service: ObjectKey, selector: Mapping[str, str] | None) -> None:
        """Add a Service that is not in the index. An empty selector selects nothing: others write the endpoints."""
        if not selector:
            return
        namespace = service[0]
        pairs = [(namespace, key, value) for key, value in selector.items()]
        by_count = sorted(pairs, key=lambda pair: self._counts.get(pair, 0))
        pair, second = by_count[0], by_count[1][1:] if len(by_count) > 1 else (None, None)
        self._by_label.setdefault(pair, {}).setdefault(second[0], {}).setdefault(second[1], {})[service] = selector
        self._counts[pair] = self._counts.get(pair, 0) + 1
        self._registered[service] = (pair, second)
        selected = self._selected[service] = {}
        wanted = selector.items()
        fewest: Collection[_Group] = min((self._groups_with.get(pair, {}) for pair in pairs), key=len)
        for group in fewest:
            if wanted <= group.labels.items():
                selected[group] = None
                group.services.add(service)

    def remove_service(self, service: ObjectKey) -> None:
        if service not in self._registered:
            return
        pair, (key, value) = self._registered.pop(service)
        by_key = self._by_label[pair]
        del by_key[key][value][service]
        _delete_empty(by_key[key], value)
        _delete_empty(by_key, key)
        _delete_empty(self._by_label, pair)
        self._counts[pair] -= 1
        if not self._counts[pair]:
            del self._counts[pair]
        for group in self._selected.pop(service):
            group.services.remove(service)

    def _matching(self, namespace: str, labels: Mapping[str, str]) -> Iterator[ObjectKey]:
        items = labels.items()
        # A selector with one label is registered under None. No Pod has the label None, so its value is None too.
        others: Mapping[str | None, str] = cast(Mapping[str | None, str], labels)
        for key, value in items:
            for second, by_value in self._by_label.get((namespace, key, value), _NO_SECOND_LABELS).items():
                for service, selector in by_value.get(others.get(second), _NO_SELECTORS).items():
                    if len(selector) <= 2 or selector.items() <= items:
                        yield service


_NO_SECOND_LABELS: Final[Mapping[str | None, Mapping[str | None, _Selectors]]] = {}
_NO_SELECTORS: Final[_Selectors] = {}


def _delete_empty(index: dict[_A, dict[_B, _C]], key: _A) -> None:
    if not index[key]:
        del index[key]
