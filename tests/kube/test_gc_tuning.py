"""The state of Python's garbage collector is restored."""

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


def test_collector_is_off_inside_the_block() -> None:
    with suppress(ValueError), without_gc():
        assert not gc.isenabled()
        with without_gc():
            pass
        assert not gc.isenabled()
        raise ValueError
    assert gc.isenabled()


def test_existing_objects_are_frozen_inside_the_block() -> None:
    with suppress(ValueError), frozen_objects():
        assert gc.get_freeze_count() > 1000
        raise ValueError
    assert gc.get_freeze_count() == 0


def test_restored_collector_has_the_defaults_of_python() -> None:
    disable_gc()
    freeze_objects()
    assert (gc.isenabled(), gc.get_freeze_count() > 1000) == (False, True)
    restore_gc()
    assert (gc.isenabled(), gc.get_freeze_count()) == (True, 0)
