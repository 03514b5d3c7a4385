"""A kube-proxy that misses its node's zone while it starts is started again."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from e2e import kube_proxy
from e2e.kube_proxy import with_its_zone
from e2e.processes import Process, ProcessError, wait_until

SYNCED = '"Caches are synced" controller="node config"'
HAS_ITS_ZONE = "Updated proxier node topology labels"
Starting = Callable[[str], Process]


@pytest.fixture
def starting(tmp_path: Path) -> Iterator[Starting]:
    """Starts what logs a text and stays, all with the same log."""
    with ExitStack() as running:

        def start(text: str) -> Process:
            command = ["sh", "-c", f"echo '{text}'; exec sleep 600"]
            process = running.enter_context(Process(command, log=tmp_path / "kube-proxy.log"))
            wait_until(lambda: text in process.output(), "a line in the log", process)
            return process

        yield start


def test_one_that_has_its_zone_stays(starting: Starting) -> None:
    first = starting(f"{SYNCED}\n{HAS_ITS_ZONE}")
    assert with_its_zone(first, lambda: starting(SYNCED)) is first
    assert first.runs


def test_one_that_missed_it_is_replaced(starting: Starting) -> None:
    # What an earlier one has logged says nothing about it.
    starting(f"{SYNCED}\n{HAS_ITS_ZONE}").stop()
    missed = starting(SYNCED)
    proxy = with_its_zone(missed, lambda: starting(f"{SYNCED}\n{HAS_ITS_ZONE}"))
    assert proxy is not missed
    assert proxy.runs
    assert not missed.runs


def test_the_log_of_the_last_one_is_shown_where_all_miss_it(
    starting: Starting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kube_proxy, "_ZONE_SECONDS", 0.05)
    with pytest.raises(ProcessError, match="node config"):
        with_its_zone(starting(SYNCED), lambda: starting(SYNCED))


def test_one_that_ends_is_reported(starting: Starting) -> None:
    ended = starting("cannot listen")
    ended.stop()
    with pytest.raises(ProcessError, match="cannot listen"):
        with_its_zone(ended, lambda: starting(SYNCED))
