"""What Pods and EndpointSlices of a namespace were, version by version: who was ready and listed nowhere, or twice.

An API server counts all its objects' versions together, so that what two watches tell can be put in one order: what
a slice listed is compared with the Pods as they were at that very version.
"""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self

from tests.builders.objects import SERVICE_NAME, a_bare_pod, a_slice
from tests.contract.api import Api, Object

_LAST: Final = "recorded-until-here"
_POD: Final = "Pod"
_SLICE: Final = "EndpointSlice"


@dataclass(slots=True)
class Listed:
    """Of one Service."""

    late: float = 0.0
    """Seconds from a Pod's readiness until a slice lists it, at most."""
    twice: float = 0.0
    """Seconds for which any address was in more than one slice, at most."""
    taken_away: list[tuple[str, float]] = field(default_factory=list)
    """Addresses that were in a slice and then in none though their Pod was ready, and for how many seconds it was."""
    writes: int = 0
    """Events of its slices."""


@dataclass(slots=True)
class _Now:
    slices: dict[str, Counter[str]] = field(default_factory=dict)
    """Ready addresses, by the slice's name."""
    listed: Counter[str] = field(default_factory=Counter)
    twice_since: dict[str, float] = field(default_factory=dict)


class Recording:
    """In threads, from entering to leaving the block; `services` is there after that.

    All ``services`` select all Pods of the namespace that have a label, and want their first addresses.
    """

    def __init__(self, api: Api, namespace: str, services: Iterable[str]) -> None:
        self._api, self._namespace = api, namespace
        self.services: Final = {name: Listed() for name in services}
        self._paths = {
            _POD: f"/api/v1/namespaces/{namespace}/pods",
            _SLICE: f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices",
        }
        self._events: list[tuple[int, float, str, bool, Object]] = []
        """Version, when it came, kind, whether the object is gone, the object."""
        self._threads: list[threading.Thread] = []
        self._ready_since: dict[str, float] = {}
        self._now: dict[str, _Now] = defaultdict(_Now)

    def __enter__(self) -> Self:
        for kind, path in self._paths.items():
            found = self._api.get(path)
            # What was there already counts as always having been there.
            self._events += [(0, 0.0, kind, False, each) for each in found["items"]]
            version = found["metadata"]["resourceVersion"]
            self._threads.append(threading.Thread(target=self._watch, args=(kind, version), daemon=True))
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        last = (
            a_bare_pod(_LAST, namespace=self._namespace),
            a_slice(_LAST, service="nobody", addresses=(), namespace=self._namespace),
        )
        for each in last:
            self._api.create(each)
        for thread in self._threads:
            thread.join(30)
        for each in last:
            self._api.delete(each)
        assert not any(thread.is_alive() for thread in self._threads)
        self._replay()

    def _watch(self, kind: str, version: str) -> None:
        with self._api.watch(self._paths[kind], {"resourceVersion": version}, patience=120) as watch:
            while (event := watch.next())["object"]["metadata"]["name"] != _LAST:
                thing = event["object"]
                number = int(thing["metadata"]["resourceVersion"])
                self._events.append((number, time.monotonic(), kind, event["type"] == "DELETED", thing))

    # --- afterwards ---------------------------------------------------------------------------------------------------

    def _replay(self) -> None:
        for _, moment, kind, is_gone, thing in sorted(self._events, key=lambda event: event[0]):
            if kind == _POD:
                self._pod(moment, thing, is_gone=is_gone)
            elif (name := thing["metadata"]["labels"].get(SERVICE_NAME)) in self.services:
                self._slice(moment, name, thing, is_gone=is_gone)
        for name, listed in self.services.items():
            assert not self._now[name].twice_since, (name, self._now[name].twice_since)
            unlisted = self._ready_since.keys() - self._now[name].listed.keys()
            assert not unlisted, (name, unlisted)
            assert listed.writes, name

    def _pod(self, moment: float, pod: Object, *, is_gone: bool) -> None:
        address = pod.get("status", {}).get("podIP")
        if address is None or not pod["metadata"].get("labels"):
            return
        conditions = pod["status"].get("conditions") or ()
        is_ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
        if is_ready and not is_gone and "deletionTimestamp" not in pod["metadata"]:
            self._ready_since.setdefault(address, moment)
        else:
            self._ready_since.pop(address, None)

    def _slice(self, moment: float, service: str, slice_: Object, *, is_gone: bool) -> None:
        found, now = self.services[service], self._now[service]
        name = slice_["metadata"]["name"]
        before = now.slices.pop(name, Counter())
        if not is_gone:
            now.slices[name] = Counter(
                address
                for one in slice_["endpoints"] or ()
                if one["conditions"].get("ready")
                for address in one["addresses"]
            )
        found.writes += moment > 0
        after = now.slices.get(name, Counter())
        for address in before.keys() | after.keys():
            count = now.listed[address] + after[address] - before[address]
            was, now.listed[address] = now.listed[address], count
            since = self._ready_since.get(address)
            if count > 1:
                now.twice_since.setdefault(address, moment)
            elif (began := now.twice_since.pop(address, None)) is not None:
                found.twice = max(found.twice, moment - began)
            if not was and count and since:
                found.late = max(found.late, moment - since)
            if not count:
                del now.listed[address]
                if was and since is not None:
                    found.taken_away.append((address, moment - since))
