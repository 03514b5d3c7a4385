"""`KubeProxy` restarts a kube-proxy that misses its node's zone while it starts."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from e2e import kube_proxy
from e2e.kube_proxy import with_its_zone
from e2e.processes import Process, ProcessError, wait_until

SYNCED = '"Caches are synced" controller="node config"'
HAS_ITS_ZONE = "Updated proxier node topology labels"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], Process]]:
    """Starts a program that logs a text and stays; all have the same log."""
    with ExitStack() as running:

        def start(text: str) -> Process:
            command = ["sh", "-c", f"echo '{text}'; exec sleep 600"]
            process = running.enter_context(Process(command, log=tmp_path / "kube-proxy.log"))
            wait_until(lambda: text in process.output(), "a line in the log", process)
            return process

        yield start


def test_kube_proxy_without_its_zone_is_replaced(start: Callable[[str], Process]) -> None:
    # Log lines of an earlier process do not count.
    start(f"{SYNCED}\n{HAS_ITS_ZONE}").stop()
    missed = start(SYNCED)
    proxy = with_its_zone(missed, lambda: start(f"{SYNCED}\n{HAS_ITS_ZONE}"))
    assert proxy is not missed
    assert (proxy.runs, missed.runs) == (True, False)
    assert with_its_zone(proxy, lambda: start(SYNCED)) is proxy


def test_error_shows_the_log_of_the_last_start(
    start: Callable[[str], Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kube_proxy, "_ZONE_SECONDS", 0.05)
    with pytest.raises(ProcessError, match="node config"):
        with_its_zone(start(SYNCED), lambda: start(SYNCED))
