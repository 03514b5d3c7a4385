"""Which Pods a Service selects and which Services select a Pod, kept while both change.

Pods with the same labels in one namespace form a group: those of a ReplicaSet, say. Services are matched with groups,
once, when either appears. A selector waits under one of its labels, the one under which the fewest wait, and there
under a second one: so that what asks with its labels looks at few Services that do not select it.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Final, TypeVar, cast

from zoneward.kube.objects import ObjectKey

_Pair = tuple[str, str, str]
"""Namespace, label and value."""
_Second = tuple[str | None, str | None]
"""Another label of a selector and its value; twice None of a selector with one label."""
_Selectors = dict[ObjectKey, Mapping[str, str]]
_A = TypeVar("_A")
_B = TypeVar("_B")
_C = TypeVar("_C")
_NONE: Final[Mapping[str, str]] = {}


class _Group:
    """Pods of a namespace with the same labels, in the order in which they came, and the Services that select them."""

    __slots__ = ("labels", "namespace", "pods", "services")

    def __init__(self, namespace: str, labels: dict[str, str]) -> None:
        self.namespace = namespace
        self.labels = labels
        self.pods: dict[ObjectKey, None] = {}
        self.services: set[ObjectKey] = set()


class SelectorIndex:
    """Keys of Services by keys of Pods and the other way, by labels and selectors."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, frozenset[tuple[str, str]]], _Group] = {}
        self._by_labels: dict[int, _Group] = {}
        """By the identity of the dictionary that `add_pod` returned, which lives as long as the group."""
        self._groups_with: dict[_Pair, dict[_Group, None]] = {}
        self._places: dict[ObjectKey, tuple[_Pair, _Second]] = {}
        self._waiting: dict[_Pair, dict[str | None, dict[str | None, _Selectors]]] = {}
        self._crowds: dict[_Pair, int] = {}
        self._selected: dict[ObjectKey, dict[_Group, None]] = {}

    def services_of(self, namespace: str, labels: Mapping[str, str] | None) -> list[ObjectKey]:
        """The Services that select a Pod with these labels, whether there is one or not; sorted."""
        group = self._by_labels.get(id(labels))
        if group is not None and group.labels is labels and group.namespace == namespace:
            found = list(group.services)
        else:
            found = list(self._matching(namespace, labels or _NONE))
        return found if len(found) < 2 else sorted(found)

    def pods_of(self, service: ObjectKey) -> list[ObjectKey]:
        """The Pods that a Service selects; none for one without a selector."""
        groups = self._selected.get(service, ())
        return [pod for group in groups for pod in group.pods]

    def add_pod(self, pod: ObjectKey, labels: dict[str, str] | None) -> dict[str, str]:
        """Returns equal labels: those of the first Pod that has them, so that one copy can serve all."""
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

    def drop_pod(self, pod: ObjectKey, labels: Mapping[str, str] | None) -> None:
        """``labels`` are those with which it was added."""
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
            _drop_empty(self._groups_with, pair)

    def add_service(self, service: ObjectKey, selector: Mapping[str, str] | None) -> None:
        """One that is new, or was dropped. An empty selector selects nothing: the endpoints come from elsewhere."""
        if not selector:
            return
        namespace = service[0]
        pairs = [(namespace, key, value) for key, value in selector.items()]
        by_crowd = sorted(pairs, key=lambda pair: self._crowds.get(pair, 0))
        pair, second = by_crowd[0], by_crowd[1][1:] if len(by_crowd) > 1 else (None, None)
        self._waiting.setdefault(pair, {}).setdefault(second[0], {}).setdefault(second[1], {})[service] = selector
        self._crowds[pair] = self._crowds.get(pair, 0) + 1
        self._places[service] = (pair, second)
        selected = self._selected[service] = {}
        wanted = selector.items()
        fewest: Collection[_Group] = min((self._groups_with.get(each, {}) for each in pairs), key=len)
        for group in fewest:
            if wanted <= group.labels.items():
                selected[group] = None
                group.services.add(service)

    def drop_service(self, service: ObjectKey) -> None:
        if service not in self._places:
            return
        pair, (key, value) = self._places.pop(service)
        by_key = self._waiting[pair]
        del by_key[key][value][service]
        _drop_empty(by_key[key], value)
        _drop_empty(by_key, key)
        _drop_empty(self._waiting, pair)
        self._crowds[pair] -= 1
        if not self._crowds[pair]:
            del self._crowds[pair]
        for group in self._selected.pop(service):
            group.services.remove(service)

    def _matching(self, namespace: str, labels: Mapping[str, str]) -> Iterator[ObjectKey]:
        items = labels.items()
        # A selector with one label waits under None, which no one has as a label, and so no value of it.
        others: Mapping[str | None, str] = cast(Mapping[str | None, str], labels)
        for key, value in items:
            for second, by_value in self._waiting.get((namespace, key, value), _NOTHING).items():
                for service, selector in by_value.get(others.get(second), _NO_SELECTORS).items():
                    if len(selector) <= 2 or selector.items() <= items:
                        yield service


_NOTHING: Final[Mapping[str | None, Mapping[str | None, _Selectors]]] = {}
_NO_SELECTORS: Final[_Selectors] = {}


def _drop_empty(index: dict[_A, dict[_B, _C]], key: _A) -> None:
    if not index[key]:
        del index[key]
