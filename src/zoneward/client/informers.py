"""Keeps a cache current, with one reflector for each of its kinds."""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, NoReturn

from zoneward.client.all_results import all_results
from zoneward.client.api_errors import CallFailed
from zoneward.client.list_pager import EVERYTHING, ListScope
from zoneward.client.reflector import Reflector, ReflectorRuntime, ReflectorSettings, ServerFeatures
from zoneward.client.resources import AnyWatchedResource
from zoneward.client.transport_interface import ReadTransport
from zoneward.client.watched_stores import WatchedStores

ErrorHandler = Callable[[AnyWatchedResource, CallFailed], None]


async def run_informers(
    transport: ReadTransport,
    cache: WatchedStores,
    *,
    options: ListScope | Mapping[str, ListScope] = EVERYTHING,
    features: ServerFeatures | None = None,
    settings: ReflectorSettings | None = None,
    runtime: ReflectorRuntime | None = None,
    on_error: ErrorHandler = lambda _resource, _error: None,
    on_version: Callable[[AnyWatchedResource, int], None] = lambda _resource, _version: None,
) -> NoReturn:
    """Fill the cache and keep it current until cancelled; all kinds are listed at the same time.

    ``options`` apply to every kind, or are given by kind (``{"Node": ListScope(field_selector="metadata.name=n1")}``).
    ``on_error`` and ``on_version`` are those of a `Reflector`. Raises the first CallFailed that another attempt does
    not change (see `Reflector`), and any error of a handler of the cache.
    """
    shared = features or ServerFeatures()

    def reflect(resource: AnyWatchedResource) -> Coroutine[Any, Any, NoReturn]:
        return Reflector(
            transport,
            resource,
            cache.store(resource),
            options=options if isinstance(options, ListScope) else options.get(resource.kind, EVERYTHING),
            features=shared,
            settings=settings,
            runtime=runtime,
            on_error=lambda error: on_error(resource, error),
            on_version=lambda version: on_version(resource, version),
        ).run()

    await all_results(map(reflect, cache.resources))
    raise AssertionError("a reflector does not end")
