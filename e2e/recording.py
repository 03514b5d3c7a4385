"""Records every version of a namespace's slices: which ready addresses were missing, and which were listed twice.

The API server numbers the versions of all objects together. So the events of two watches can be ordered, and a slice is
compared with the Pods at the same version.
"""

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, Self

from tests.builders.objects import MANAGED_BY, SERVICE_NAME, a_bare_pod, a_slice
from tests.contract.api import Api, Object

_LAST: Final = "recorded-until-here"
_POD, _SLICE = "Pod", "EndpointSlice"


class Recording:
    """Watches while the block runs; the results are complete afterwards.

    ``steady`` are addresses that all ``services`` (or each of them) must always list as ready. Without it, all
    ``services`` select all labelled Pods, and each ready Pod must stay listed once it is.
    """

    def __init__(
        self,
        api: Api,
        namespace: str,
        services: Iterable[str],
        *,
        steady: Iterable[str] | Mapping[str, Iterable[str]] | None = None,
    ) -> None:
        self._api, self._namespace, self._services = api, namespace, tuple(services)
        of_each = steady if isinstance(steady, Mapping) else dict.fromkeys(self._services, tuple(steady or ()))
        self._steady = {service: frozenset(of_each[service]) for service in self._services}
        self._paths = {_SLICE: f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"}
        if steady is None:
            self._paths[_POD] = f"/api/v1/namespaces/{namespace}/pods"
        self._events: list[tuple[int, str, bool, Object]] = []
        """Version, kind, whether the object is gone, the object."""
        self._threads: list[threading.Thread] = []
        self.missing: list[tuple[str, list[str]]] = []
        """Service and missing addresses, for each event after which some were missing."""
        self.twice: set[str] = set()
        """Services that listed an address in two slices at some time; at the end none may."""
        self.writes: Counter[str] = Counter()
        """Events of each Service's slices."""
        self.managers: set[str] = set()
        """The managers of all slices."""

    def __enter__(self) -> Self:
        for kind, path in self._paths.items():
            listing = self._api.get(path)
            self._events += [(0, kind, False, item) for item in listing["items"]]
            version = listing["metadata"]["resourceVersion"]
            self._threads.append(threading.Thread(target=self._watch, args=(kind, version), daemon=True))
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        last = (
            a_bare_pod(_LAST, namespace=self._namespace),
            a_slice(_LAST, service="nobody", addresses=(), namespace=self._namespace),
        )
        for object_ in last:
            self._api.create(object_)
        for thread in self._threads:
            thread.join(60)
        for object_ in last:
            self._api.delete(object_)
        assert not any(thread.is_alive() for thread in self._threads)
        self._replay()

    def versions(self) -> list[Object]:
        """Every version of every slice so far, in order, with those from before the block."""
        slices = sorted((record for record in tuple(self._events) if record[1] == _SLICE), key=lambda event: event[0])
        return [object_ for _, _, is_gone, object_ in slices if not is_gone]

    def _watch(self, kind: str, version: str) -> None:
        with self._api.watch(self._paths[kind], {"resourceVersion": version}, patience=600) as watch:
            while (event := watch.next())["object"]["metadata"]["name"] != _LAST:
                object_ = event["object"]
                resource_version = int(object_["metadata"]["resourceVersion"])
                self._events.append((resource_version, kind, event["type"] == "DELETED", object_))

    def _replay(self) -> None:
        ready: set[str] = set()
        slices: dict[str, dict[str, Counter[str]]] = {service: {} for service in self._services}
        for version, kind, is_gone, object_ in sorted(self._events, key=lambda event: event[0]):
            if kind == _POD:
                address = object_.get("status", {}).get("podIP", "")
                (ready.add if _is_ready(object_) and not is_gone else ready.discard)(address)
                continue
            service = object_["metadata"]["labels"].get(SERVICE_NAME)
            if service not in slices:
                continue
            self.writes[service] += version > 0
            self.managers.add(object_["metadata"]["labels"][MANAGED_BY])
            before = _sum(slices[service])
            slices[service][object_["metadata"]["name"]] = Counter() if is_gone else _listed(object_)
            after = _sum(slices[service])
            if version and (gone := (self._steady[service] | (before.keys() & ready)) - after.keys()):
                self.missing.append((service, sorted(gone)))
            if any(count > 1 for count in after.values()):
                self.twice.add(service)
        for service, objects in slices.items():
            listed = _sum(objects)
            assert not [address for address, count in listed.items() if count > 1], service
            assert listed.keys() >= ready | self._steady[service], service


def _is_ready(pod: Object) -> bool:
    conditions = pod["status"].get("conditions") or ()
    is_ready = any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
    return is_ready and bool(pod["metadata"].get("labels")) and "deletionTimestamp" not in pod["metadata"]


def _listed(slice_: Object) -> Counter[str]:
    return Counter(
        address for one in slice_["endpoints"] or () if one["conditions"].get("ready") for address in one["addresses"]
    )


def _sum(slices: Mapping[str, Counter[str]]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for slice_ in slices.values():
        counts.update(slice_)
    return counts
