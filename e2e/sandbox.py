"""A sandbox as users start it: a program of its own, with a kubeconfig."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml
from e2e.processes import Process
from tests.contract.api import Api

_PATIENCE: Final = 30.0
"""Seconds until it has written its kubeconfig; a fraction of one on an idle machine."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    kubeconfig: Path
    """Is there while the sandbox is."""
    api: Api
    process: Process


@contextmanager
def a_sandbox(folder: Path) -> Iterator[Sandbox]:
    """Ready, and ended with the block. ``folder`` gets its kubeconfig and its log."""
    kubeconfig = folder / "kubeconfig"
    command = [sys.executable, "-m", "zoneward", "sandbox", "--port", "0", "--write-kubeconfig", str(kubeconfig)]
    with Process(command, log=folder / "sandbox.log") as process:
        limit = time.monotonic() + _PATIENCE
        while not kubeconfig.exists():
            process.check()
            assert time.monotonic() < limit, f"no sandbox: {process.last_lines()}"
            time.sleep(0.02)
        known = yaml.safe_load(kubeconfig.read_text())
        api = Api(known["clusters"][0]["cluster"]["server"], known["users"][0]["user"]["token"])
        yield Sandbox(kubeconfig, api, process)
        api.close()
