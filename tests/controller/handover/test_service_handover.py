"""Handing Services over and back on a sandbox restores them, also after an interruption; several run concurrently."""

import asyncio
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

import pytest
from tests.client.calling import Time
from tests.client.recording import until
from tests.controller.a_built_in import KEY, Shop, a_shop
from tests.controller.a_controller import KEPT, LABELS
from tests.controller.lines import Lines
from tests.patience import PATIENCE

from zoneward.client.api_errors import Forbidden, Invalid, NoCredentials, ServerFault, Unreachable
from zoneward.client.transport_interface import WriteTransport
from zoneward.client.writer import Writer
from zoneward.controller.handover.service_handover import (
    CONCURRENT_RELEASES,
    HandoverTimeouts,
    ReleaseTasks,
    ServiceHandover,
)
from zoneward.kube import names
from zoneward.kube.adoption_marks import ADOPTION_MARKS, SELECTOR_ANNOTATION, SKIP_MIRROR_LABEL
from zoneward.kube.input_error import InputError
from zoneward.kube.objects import ObjectKey, ObjectMeta
from zoneward.routing.configuration import Configuration
from zoneward.sandbox.server.kinds import Kind
from zoneward.sandbox.server.versioned_store import StoredChange


class Failing(Writer):
    """The first ``times`` patches fail."""

    def __init__(self, transport: WriteTransport, error: Exception, *, times: int) -> None:
        super().__init__(transport)
        self._left = [error] * times

    async def patch(self, *what: Any, **options: Any) -> ObjectMeta:
        if self._left:
            raise self._left.pop()
        return await super().patch(*what, **options)


def is_ours(shop: Shop) -> bool:
    labels, annotations, spec = shop.words()
    return (
        labels == {SKIP_MIRROR_LABEL: "true"}
        and set(annotations) == {"a", *ADOPTION_MARKS}
        and "selector" not in spec
        and len(shop.slices(names.MANAGER)) == 1
        and not shop.slices(names.BUILT_IN_MANAGER)
    )


async def test_adopt_and_release_restores_the_service() -> None:
    async with a_shop() as shop:
        before = shop.words()
        assert await shop.adopting().adopt(endpoints_policy="keep") == "done: managed by Zoneward, with 1 EndpointSlice"
        assert is_ours(shop)
        assert shop.words()[1][SELECTOR_ANNOTATION] == '{"app":"cart"}'
        assert len(shop.reports) == 4, "label, selector, Zoneward's slice, the built-in controller's slice"
        assert await shop.adopting(still=1000.0).release() == "done: managed by the built-in controller"
        assert shop.words() == before
        assert not shop.slices(names.MANAGER), (
            "Zoneward's slices are deleted at once, however long the others must be unchanged"
        )
        await shop.quiet()
        assert shop.listed() == shop.steady


async def test_a_built_in_controller_that_does_not_respond_is_an_error_and_no_endpoint_is_missing() -> None:
    """On a clock that only advances during sleeps."""
    now = 0.0
    async with a_shop() as shop:

        async def sleep(seconds: float) -> None:
            nonlocal now
            now += seconds
            if shop.runs:
                await shop.quiet()

        on_this_clock = {"clock": lambda: now, "sleep": sleep}
        shop.lets_go = False
        with pytest.raises(InputError, match=r"timed out after 0\.5 s: the built-in controller still writes cart-"):
            await shop.adopting(total=0.5, **on_this_clock).adopt(endpoints_policy="keep")
        shop.lets_go = True
        await shop.adopting().adopt(endpoints_policy="keep")
        assert is_ours(shop)
        shop.runs = False
        with pytest.raises(InputError, match="waited for the built-in controller to list every ready endpoint"):
            await shop.adopting(total=0.3, **on_this_clock).release()
        assert len(shop.slices(names.MANAGER)) == 1


@pytest.mark.parametrize(
    ("error", "may_be_written"),
    [
        (Invalid(422, "Invalid", "no"), False),
        (Forbidden(403, "Forbidden", "no"), False),
        (NoCredentials(InputError("token", "none")), False),
        (ServerFault(500, "InternalError", "boom"), True),
        (Unreachable("broken off"), True),
    ],
    ids=str,
)
async def test_a_handover_has_begun_once_a_write_may_have_been_applied(error: Exception, may_be_written: bool) -> None:
    time = Time()
    async with a_shop() as shop:
        writer = Failing(shop.link, error, times=99)
        handover = shop.adopting(writer=writer, total=0.3, clock=time, sleep=time.sleep)
        with pytest.raises(type(error)):
            await handover.adopt(endpoints_policy="keep")
        assert handover.is_begun is may_be_written
        await (again := shop.adopting()).adopt(endpoints_policy="keep")
        assert again.is_begun


@pytest.mark.parametrize("adopts", [True, False])
async def test_a_missing_service_or_one_without_a_selector_is_refused_and_not_modified(adopts: bool) -> None:
    async with a_shop() as shop:
        shop.change_service(lambda old: old | {"spec": {"ports": old["spec"]["ports"]}})
        version = shop.registry.store.version
        with pytest.raises(InputError, match=r"^Service default/cart: expected a selector, got none"):
            await (shop.adopting().adopt(endpoints_policy="keep") if adopts else shop.adopting().release())
        assert shop.registry.store.version == version
        shop.steady.clear()
        shop.store.delete(shop.registry.kinds["services"], *KEY)
        words = r'^Service default/cart: expected a Service, found none: .*"cart" not found$'
        with pytest.raises(InputError, match=words):
            await (shop.adopting().adopt(endpoints_policy="keep") if adopts else shop.adopting().release())


async def test_a_selector_that_changes_during_the_handover_is_kept() -> None:
    async with a_shop() as shop:
        shop.steady.clear()
        writes: list[float] = []

        def may_write(seconds: float) -> bool:
            writes.append(seconds)
            if len(writes) == 2:
                shop.change_service(lambda old: old | {"spec": old["spec"] | {"selector": {"app": "other"}}})
            return True

        await shop.adopting(writer=Writer(shop.link, may_write=may_write)).adopt(endpoints_policy="keep")
        assert shop.words()[1][SELECTOR_ANNOTATION] == '{"app":"other"}'


async def test_a_slice_of_the_built_in_controller_is_deleted_once_it_is_unchanged_for_a_second() -> None:
    """On a clock that only advances during sleeps; the built-in slice changes twice meanwhile."""
    now, changed, gone = 0.0, [0.0], list[float]()
    async with a_shop() as shop:

        async def sleep(seconds: float) -> None:
            nonlocal now
            now += seconds
            if len(changed) < 3:
                (theirs,) = shop.slices(names.BUILT_IN_MANAGER)
                shop.touch_slice(theirs["metadata"]["name"])
                changed.append(now)

        def note(kind: Kind, change: StoredChange) -> None:
            if kind.resource == KEPT and change.type == "DELETED":
                gone.append(now)

        shop.runs = False
        shop.registry.store.listeners.append(note)
        await shop.adopting(still=1.0, clock=lambda: now, sleep=sleep).adopt(endpoints_policy="keep")
        assert is_ours(shop)
    assert (changed, gone) == ([0.0, 1.0, 2.0], [3.0])


async def test_the_mirroring_controller_has_time_between_label_and_selector() -> None:
    """On a clock that only advances during sleeps. During the first pause, another client removes the label."""
    now, seen = 0.0, list[tuple[float, bool, bool]]()
    async with a_shop() as shop:

        def without_label(old: dict[str, Any]) -> dict[str, Any]:
            return old | {"metadata": old["metadata"] | {"labels": {}}}

        async def sleep(seconds: float) -> None:
            nonlocal now
            now += seconds
            if seen == [(0.0, True, True)]:
                shop.change_service(without_label)
            await shop.quiet()

        def note(kind: Kind, _change: StoredChange) -> None:
            if kind.resource == "services":
                labels, _, spec = shop.words()
                seen.append((now, SKIP_MIRROR_LABEL in labels, "selector" in spec))

        shop.registry.store.listeners.append(note)
        handover = {"rest": 2.0, "clock": lambda: now, "sleep": sleep}
        await shop.adopting(**handover).adopt(endpoints_policy="keep")
        assert is_ours(shop)
        assert seen == [(0.0, True, True), (2.0, False, True), (2.0, True, True), (4.0, True, False)]
        seen.clear()
        await shop.adopting(**handover).release()
        (back, *selected), (gone, *unlabelled) = seen
        assert (selected, unlabelled) == ([True, True], [False, True])
        assert gone - back >= 2.0


async def test_adopting_waits_for_recreated_slices_and_not_for_a_flipping_pod() -> None:
    """On a clock that only advances during sleeps, with a Pod that is in another state after each sleep."""
    now, came_back, states = 0.0, list[float](), cycle((False, True))
    async with a_shop() as shop:
        shop.runs = False
        shop.steady.discard("10.0.0.0")

        async def sleep(seconds: float) -> None:
            nonlocal now
            now += seconds
            shop.make_ready(0, next(states))
            if now > 1.5 and not came_back:
                came_back.append(now)
                shop.lets_go = False
                shop.sync()

        adopting = shop.adopting(settling=2.0, clock=lambda: now, sleep=sleep)
        await adopting.adopt(endpoints_policy="keep")
        assert is_ours(shop)
        assert came_back[0] + 2.0 <= now < came_back[0] + 3.0


# --- Services that are given back beside each other -------------------------------------------------------------------


@dataclass
class Site:
    """An adopted Service whose selector has come back."""

    shop: Shop
    over: list[ObjectKey] = field(default_factory=list)
    log: Lines = field(default_factory=Lines)
    pauses: list[float] = field(default_factory=list)

    async def begin(self) -> "Site":
        await self.shop.adopting().adopt(endpoints_policy="keep")
        self.shop.change_service(lambda old: old | {"spec": old["spec"] | {"selector": LABELS}})
        return self

    def releases(self, writer: Writer | None = None) -> ReleaseTasks:
        return ReleaseTasks(
            self.shop.link,
            configuration=Configuration(),
            writer=writer or Writer(self.shop.link),
            log=self.log,
            on_end=self.over.append,
            timeouts=HandoverTimeouts(total=PATIENCE, settling=0.05, still=0.05, rest=0.05),
            sleep=self._sleep,
        )

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0)

    @property
    def is_released(self) -> bool:
        return not self.shop.slices(names.MANAGER) and SELECTOR_ANNOTATION not in self.shop.words()[1]


async def test_a_service_is_released_once_even_if_the_task_was_cancelled_before_its_first_step() -> None:
    async with a_shop() as shop:
        site = await Site(shop).begin()
        releases = site.releases()
        releases.start(KEY)
        releases.cancel()
        await until(lambda: site.over == [KEY])
        assert len(releases) == 0
        for _ in range(3):
            releases.start(KEY)
        assert len(releases) == 1
        await until(lambda: not len(releases))
        assert site.over == [KEY, KEY]
        assert site.is_released
        assert site.pauses == []


async def test_four_releases_run_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [("default", f"cart-{index}") for index in range(CONCURRENT_RELEASES + 2)]
    releasing: list[str] = []
    goes_on = asyncio.Event()

    async def release(handover: ServiceHandover, *, only_selected: bool) -> None:
        releasing.append(handover._name)
        if only_selected and len(releasing) != 2:
            await goes_on.wait()

    monkeypatch.setattr(ServiceHandover, "release", release)
    async with a_shop() as shop:
        site = Site(shop)
        releases = site.releases()
        for key in keys:
            releases.start(key)
        await until(lambda: site.over == [keys[1]])
        await asyncio.sleep(0.02)
        assert releasing == [name for _, name in keys[: CONCURRENT_RELEASES + 1]]
        await releases.end()
        assert (len(releases), sorted(site.over)) == (0, keys)


@pytest.mark.parametrize(
    ("error", "pauses", "words"),
    [
        (InputError("Service default/cart", "not now"), [5, 10, 20, 40, 60, 60], ["Service default/cart: not now"] * 6),
        (RuntimeError("a mistake"), [5, 10, 20], ["RuntimeError: a mistake"]),
    ],
    ids=["a-failure", "a-mistake-in-the-program"],
)
async def test_a_failing_release_is_retried_with_backoff_up_to_a_minute(
    error: Exception, pauses: list[float], words: list[str]
) -> None:
    """A bug in the program is logged once, with its location."""
    async with a_shop() as shop:
        site = await Site(shop).begin()
        releases = site.releases(Failing(shop.link, error, times=len(pauses)))
        releases.start(KEY)
        await until(lambda: not len(releases))
        assert site.pauses == pauses
        assert [fields["error"] for _, fields in site.log.lines if "error" in fields] == words
        assert (site.over, site.is_released) == ([KEY], True)


async def test_a_service_that_was_deleted_or_adopted_again_is_not_released() -> None:
    async with a_shop() as shop:
        await shop.adopting().adopt(endpoints_policy="keep")
        version = shop.registry.store.version
        site, gone = Site(shop), ("default", "none")
        releases = site.releases()
        for key in (KEY, gone):
            releases.start(key)
        await until(lambda: not len(releases))
        assert sorted(site.over) == [KEY, gone]
        assert shop.registry.store.version == version
        assert (site.pauses, site.log.lines) == ([], [])
