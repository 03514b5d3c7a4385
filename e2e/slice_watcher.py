"""What the slices of a namespace list from moment to moment: what is missing, and how long it is there twice."""

import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Final, Self

from tests.builders.objects import SERVICE_NAME, a_slice
from tests.contract.api import Api, Object

_LAST: Final = "watched-until-here"


class SliceWatcher:
    """In a thread, from entering to leaving the block; what it found is whole after that.

    ``steady`` are addresses that every one of ``services``, or each of its own, lists as ready all the time.
    """

    def __init__(
        self,
        api: Api,
        namespace: str,
        services: Iterable[str],
        *,
        steady: Iterable[str] | Mapping[str, Iterable[str]],
    ) -> None:
        self._api, self._namespace = api, namespace
        by_service = steady if isinstance(steady, Mapping) else dict.fromkeys(services, tuple(steady))
        self._steady = {service: frozenset(by_service[service]) for service in services}
        self._path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
        self._slices: dict[str, Object] = {}
        self._twice_since: dict[str, float] = {}
        self.missing: list[tuple[str, list[str]]] = []
        """Service and addresses, once for each event after which something was missing."""
        self.events = 0
        self.twice: dict[str, float] = {}
        """By Service, the longest time for which an address was in more than one slice, in seconds."""
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        found = self._api.get(self._path)
        self._slices = {each["metadata"]["name"]: each for each in found["items"]}
        self._version = found["metadata"]["resourceVersion"]
        self._look(self._steady)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        last = a_slice(_LAST, service="nobody", addresses=(), namespace=self._namespace)
        self._api.create(last)
        self._thread.join(30)
        self._api.delete(last)
        assert not self._thread.is_alive()

    def _watch(self) -> None:
        with self._api.watch(self._path, {"resourceVersion": self._version}, patience=120) as watch:
            while (event := watch.next())["object"]["metadata"]["name"] != _LAST:
                thing = event["object"]
                name = thing["metadata"]["name"]
                self.events += 1
                if event["type"] == "DELETED":
                    self._slices.pop(name, None)
                else:
                    self._slices[name] = thing
                self._look([thing["metadata"]["labels"].get(SERVICE_NAME, "")])

    def _look(self, services: Iterable[str]) -> None:
        for service in set(services) & self._steady.keys():
            ready = Counter(
                address
                for each in self._slices.values()
                if each["metadata"]["labels"].get(SERVICE_NAME) == service
                for one in each["endpoints"] or []
                if one["conditions"].get("ready")
                for address in one["addresses"]
            )
            if gone := self._steady[service] - ready.keys():
                self.missing.append((service, sorted(gone)))
            now = time.monotonic()
            if any(count > 1 for count in ready.values()):
                self._twice_since.setdefault(service, now)
            elif (since := self._twice_since.pop(service, None)) is not None:
                self.twice[service] = max(self.twice.get(service, 0), now - since)
