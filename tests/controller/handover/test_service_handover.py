"""Adopting and releasing on a sandbox: cut off, disturbed, refused; and no endpoint is ever missing."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.builders.objects import a_slice
from tests.controller.a_built_in import KEY, Shop, a_shop
from tests.controller.a_controller import KEPT

from zoneward.client.writer import Writer
from zoneward.controller.handover.service_handover import ServiceHandover
from zoneward.kube import names
from zoneward.kube.adoption_marks import ADOPTION_MARKS, SELECTOR_ANNOTATION, SKIP_MIRROR_LABEL
from zoneward.kube.input_error import InputError
from zoneward.sandbox.server.kinds import Kind
from zoneward.sandbox.server.resource_registry import LocalClient
from zoneward.sandbox.server.versioned_store import StoredChange

WRITES = {"adopt": 4, "release": 3}
"""Label, selector, our slice, theirs; and selector, ours, marks."""


class CutOff(Exception):  # noqa: N818 -- as if the process had gone
    pass


@asynccontextmanager
async def a_steady_shop(*faults: str) -> AsyncIterator[Shop]:
    async with a_shop(*faults) as shop:
        yield shop
        assert shop.missing == []


def with_shop(work: Callable[[Shop], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
    async def test() -> None:
        async with a_steady_shop() as shop:
            await work(shop)

    return test


def dying(shop: Shop, after: int) -> Writer:
    """A writer that lives for so many writes."""
    left = [after]

    def may_write(_seconds: float) -> bool:
        if not left[0]:
            raise CutOff
        left[0] -= 1
        return True

    return Writer(shop.link, may_write=may_write)


async def way(adopting: ServiceHandover, name: str) -> str:
    return await (adopting.adopt(endpoints_policy="keep") if name == "adopt" else adopting.release())


def is_ours(shop: Shop) -> bool:
    labels, annotations, spec = shop.words()
    return (
        labels == {SKIP_MIRROR_LABEL: "true"}
        and set(annotations) == {"a", *ADOPTION_MARKS}
        and "selector" not in spec
        and len(shop.slices(names.MANAGER)) == 1
        and not shop.slices(names.BUILT_IN_MANAGER)
    )


@with_shop
async def test_there_and_back_leaves_the_service_as_it_was(shop: Shop) -> None:
    before = shop.words()
    assert await shop.adopting().adopt(endpoints_policy="keep") == "Zoneward has it, with 1 EndpointSlice"
    assert is_ours(shop)
    assert len(shop.told) == WRITES["adopt"]
    assert await shop.adopting().release() == "the built-in controller has it"
    assert shop.words() == before
    assert not shop.slices(names.MANAGER)
    await shop.quiet()
    assert shop.listed() == shop.steady


@pytest.mark.parametrize(("name", "after"), [(name, after) for name, most in WRITES.items() for after in range(most)])
@pytest.mark.parametrize("then", ["adopt", "release"])
async def test_cut_off_after_any_write_either_way_goes_on_from_there(name: str, after: int, then: str) -> None:
    async with a_steady_shop() as shop:
        before = shop.words()
        if name == "release":
            await shop.adopting().adopt(endpoints_policy="keep")
        with pytest.raises(CutOff):
            await way(shop.adopting(writer=dying(shop, after)), name)
        shop.steady.discard("10.0.0.1")
        shop.make_ready(1, False)
        await way(shop.adopting(), then)
        await shop.quiet()
        assert shop.listed() == shop.steady
        if then == "adopt":
            assert is_ours(shop)
        else:
            assert shop.words() == before
            assert not shop.slices(names.MANAGER)


@pytest.mark.parametrize("seed", range(3))
async def test_conflicts_and_lost_answers_only_cost_time(seed: int) -> None:
    async with a_steady_shop("conflict@0.2", "lost-answer@0.2", "500@0.05") as shop:
        before = shop.words()
        for _ in range(seed + 1):
            await shop.adopting().adopt(endpoints_policy="keep")
            assert is_ours(shop)
            await shop.adopting().release()
            assert shop.words() == before


@with_shop
async def test_a_built_in_controller_that_does_not_let_go_is_told_and_nothing_is_missing(shop: Shop) -> None:
    shop.lets_go = False
    with pytest.raises(InputError, match=r"not within 0\.5 s: the built-in controller still writes cart-"):
        await shop.adopting(total=0.5).adopt(endpoints_policy="keep")
    shop.lets_go = True
    await shop.adopting().adopt(endpoints_policy="keep")
    assert is_ours(shop)


@with_shop
async def test_without_a_built_in_controller_ours_stay(shop: Shop) -> None:
    await shop.adopting().adopt(endpoints_policy="keep")
    shop.runs = False
    with pytest.raises(InputError, match="waited for the built-in controller to list every ready endpoint"):
        await shop.adopting(total=0.3).release()
    assert len(shop.slices(names.MANAGER)) == 1
    shop.runs = True
    await shop.adopting().release()
    assert not shop.slices(names.MANAGER)


@pytest.mark.parametrize("name", WRITES)
async def test_a_service_that_is_not_there_is_told(name: str) -> None:
    async with a_steady_shop() as shop:
        shop.steady.clear()
        LocalClient(shop.registry).delete(shop.registry.kinds["services"], *KEY)
        with pytest.raises(
            InputError, match=r'^Service default/cart: expected a Service, found none: .*"cart" not found$'
        ):
            await way(shop.adopting(), name)


@pytest.mark.parametrize("name", WRITES)
async def test_a_service_without_selector_is_refused_and_left_as_it_is(name: str) -> None:
    async with a_steady_shop() as shop:

        def unselect(service: Any) -> Any:
            del service["spec"]["selector"]
            return service

        shop.change_service(unselect)
        version = shop.registry.store.version
        with pytest.raises(InputError, match=r"^Service default/cart: expected a selector, got none"):
            await way(shop.adopting(), name)
        assert shop.registry.store.version == version


@with_shop
async def test_the_mark_says_what_was_selected(shop: Shop) -> None:
    await shop.adopting().adopt(endpoints_policy="keep")
    assert shop.words()[1][SELECTOR_ANNOTATION] == '{"app":"cart"}'


@with_shop
async def test_a_selector_that_changes_under_our_hands_is_the_one_that_is_kept(shop: Shop) -> None:
    shop.steady.clear()
    writes: list[float] = []

    def may_write(seconds: float) -> bool:
        writes.append(seconds)
        if len(writes) == 2:
            shop.change_service(lambda service: service | {"spec": service["spec"] | {"selector": {"app": "other"}}})
        return True

    await shop.adopting(writer=Writer(shop.link, may_write=may_write)).adopt(endpoints_policy="keep")
    assert shop.words()[1][SELECTOR_ANNOTATION] == '{"app":"other"}'


@with_shop
async def test_a_name_that_another_services_slice_has_is_passed_over(shop: Shop) -> None:
    adopting = shop.adopting()
    (family,) = adopting.plan(await adopting.read_state()).families
    (wanted,) = family.changes.create
    other = a_slice(wanted.metadata.name, service="other", addresses=["10.9.9.9"])
    LocalClient(shop.registry).create(shop.registry.kinds[KEPT], KEY[0], other)
    await adopting.adopt(endpoints_policy="keep")
    (written,) = shop.slices(names.MANAGER)
    assert written["metadata"]["name"] != wanted.metadata.name


async def test_a_slice_of_theirs_is_deleted_only_once_it_has_not_changed_for_a_while() -> None:
    """On a clock that only goes while it is slept; theirs changes twice meanwhile."""
    now, changed, gone = 0.0, [0.0], list[float]()

    async def work(shop: Shop) -> None:
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

    await with_shop(work)()
    assert changed == [0.0, 1.0, 2.0]
    assert gone == [3.0]


@with_shop
async def test_slices_of_ours_go_at_once(shop: Shop) -> None:
    await shop.adopting().adopt(endpoints_policy="keep")
    await shop.adopting(still=100.0).release()
    assert not shop.slices(names.MANAGER)
