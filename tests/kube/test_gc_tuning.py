"""Python's garbage collector is as it was before, whatever happens in between."""

import gc
from collections.abc import Iterator
from contextlib import suppress

import pytest

from zoneward.kube.gc_tuning import disable_gc, freeze_objects, frozen_objects, restore_gc, without_gc


@pytest.fixture(autouse=True)
def collector_as_python_starts_with_it() -> Iterator[None]:
    restore_gc()
    yield
    restore_gc()


def test_there_are_no_collections_inside_the_block_and_then_as_before() -> None:
    with suppress(ValueError), without_gc():
        assert not gc.isenabled()
        with without_gc():
            pass
        assert not gc.isenabled()
        raise ValueError
    assert gc.isenabled()


def test_what_exists_is_not_walked_over_inside_the_block() -> None:
    with suppress(ValueError), frozen_objects():
        assert gc.get_freeze_count() > 1000
        raise ValueError
    assert gc.get_freeze_count() == 0


def test_a_restored_collector_is_as_python_starts_with_it() -> None:
    disable_gc()
    freeze_objects()
    assert (gc.isenabled(), gc.get_freeze_count() > 1000) == (False, True)
    restore_gc()
    assert (gc.isenabled(), gc.get_freeze_count()) == (True, 0)
