"""Services that are given back beside each other: a few at a time, again where it failed, and no longer than asked."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from tests.builders.objects import a_slice
from tests.controller.a_built_in import KEY, Shop, a_shop
from tests.controller.a_controller import KEPT, LABELS
from tests.controller.lines import Lines

from zoneward.client.resources import SERVICES
from zoneward.client.writer import Writer
from zoneward.controller.handover.service_handover import CONCURRENT_RELEASES, ReleaseTasks
from zoneward.kube import names
from zoneward.kube.adoption_marks import SELECTOR_ANNOTATION
from zoneward.kube.input_error import InputError
from zoneward.kube.objects import ObjectKey
from zoneward.routing.configuration import Configuration
from zoneward.sandbox.server.resource_registry import LocalClient

LIMIT = 20.0


@dataclass
class Site:
    shop: Shop
    over: list[ObjectKey] = field(default_factory=list)
    log: Lines = field(default_factory=Lines)
    pauses: list[float] = field(default_factory=list)

    def releases(self, *, may_write: Callable[[float], bool] = lambda _seconds: True) -> ReleaseTasks:
        return ReleaseTasks(
            self.shop.link,
            configuration=Configuration(),
            writer=Writer(self.shop.link, may_write=may_write),
            log=self.log,
            on_end=self.over.append,
            sleep=self._sleep,
        )

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0)

    async def adopt(self) -> None:
        """And its selector comes back."""
        await self.shop.adopting().adopt(endpoints_policy="keep")
        self.shop.change_service(lambda old: old | {"spec": old["spec"] | {"selector": LABELS}})

    @property
    def is_released(self) -> bool:
        return not self.shop.slices(names.MANAGER) and SELECTOR_ANNOTATION not in self.shop.words()[1]


def with_site(work: Callable[[Site], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
    async def test() -> None:
        async with a_shop() as shop:
            await work(Site(shop))
            assert shop.missing == []

    return test


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT):
        while not holds():
            await asyncio.sleep(0.005)


def failing(times: int, error: Callable[[], Exception]) -> Callable[[float], bool]:
    """What a Writer asks before each write: so many of them fail."""
    left = [times]

    def may_write(_seconds: float) -> bool:
        if left[0]:
            left[0] -= 1
            raise error()
        return True

    return may_write


@with_site
async def test_it_is_given_back_and_told_once(site: Site) -> None:
    await site.adopt()
    releases = site.releases()
    for _ in range(3):
        releases.start(KEY)
    assert len(releases) == 1
    await until(lambda: not len(releases))
    assert site.over == [KEY]
    assert site.is_released
    assert site.pauses == []


def test_four_at_a_time_and_the_next_when_one_has_ended() -> None:
    keys = [("default", f"waits-{number}") for number in range(CONCURRENT_RELEASES + 2)]

    async def work(site: Site) -> None:
        store, kinds = LocalClient(site.shop.registry), site.shop.registry.kinds
        for namespace, name in keys:
            service = {"metadata": {"name": name}, "spec": {"selector": LABELS, "ports": [{"port": 80}]}}
            store.create(kinds["services"], namespace, service)
            labels = {names.SERVICE_NAME_LABEL: name, names.MANAGED_BY_LABEL: names.MANAGER}
            ours = a_slice(name, service=name, addresses=["10.0.0.1"])
            ours["metadata"]["labels"] = labels
            store.create(kinds[KEPT], namespace, ours)
        begun: list[str] = []
        read = site.shop.link.get

        async def get(path: str, *given: Any, **options: Any) -> Any:
            name = path.rpartition("/")[2]
            if path == SERVICES.path(namespace="default", name=name) and name not in begun:
                begun.append(name)
            return await read(path, *given, **options)

        site.shop.link.get = get  # type: ignore[method-assign]
        releases = site.releases()
        for key in keys:
            releases.start(key)
        # No built-in controller makes slices of them: the first wait for it.
        await until(lambda: len(begun) == CONCURRENT_RELEASES)
        await asyncio.sleep(0.2)
        assert begun == [name for _, name in keys[:CONCURRENT_RELEASES]]
        store.delete(kinds["services"], *keys[1])
        await until(lambda: len(begun) == CONCURRENT_RELEASES + 1)
        assert site.over == [keys[1]]
        await releases.end()
        assert len(releases) == 0
        assert sorted(site.over) == keys

    with_site(work)


@with_site
async def test_cancelled_before_its_first_step_it_can_be_begun_again(site: Site) -> None:
    await site.adopt()
    releases = site.releases()
    releases.start(KEY)
    releases.cancel()
    await until(lambda: site.over == [KEY])
    assert len(releases) == 0
    releases.start(KEY)
    await until(lambda: site.over == [KEY, KEY])
    assert site.is_released


@with_site
async def test_what_fails_again_and_again_is_tried_after_pauses_that_grow_to_a_minute(site: Site) -> None:
    await site.adopt()
    releases = site.releases(may_write=failing(6, lambda: InputError("Service default/cart", "not now")))
    releases.start(KEY)
    await until(lambda: not len(releases))
    assert site.pauses == [5, 10, 20, 40, 60, 60]
    failed = ("a Service could not be released", {"error": "Service default/cart: not now"})
    assert site.log.told[:6] == [failed] * 6
    assert (site.over, site.is_released) == ([KEY], True)


@with_site
async def test_a_mistake_in_the_program_is_told_once_and_tried_again(site: Site) -> None:
    await site.adopt()
    releases = site.releases(may_write=failing(3, lambda: RuntimeError("a mistake")))
    releases.start(KEY)
    await until(lambda: not len(releases))
    (fields,) = (fields for event, fields in site.log.told if "mistake" in event)
    assert fields["error"] == "RuntimeError: a mistake"
    assert "may_write" in str(fields["at"])
    assert site.pauses == [5, 10, 20]
    assert (site.over, site.is_released) == ([KEY], True)


@with_site
async def test_one_that_is_gone_or_has_been_adopted_again_is_let_be(site: Site) -> None:
    await site.shop.adopting().adopt(endpoints_policy="keep")
    version = site.shop.registry.store.version
    releases = site.releases()
    gone = ("default", "none")
    for key in (KEY, gone):
        releases.start(key)
    await until(lambda: not len(releases))
    assert sorted(site.over) == [KEY, gone]
    assert site.shop.registry.store.version == version
    assert (site.pauses, site.log.told) == ([], [])
