"""A sandbox as users start it: a separate program, with a kubeconfig."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml
from e2e.nodes import Namespace
from e2e.processes import Process, wait_until
from tests.contract.api import Api


@dataclass(frozen=True, slots=True)
class Sandbox:
    kubeconfig: Path
    address: str
    api: Api
    pid: int


@contextmanager
def a_sandbox(folder: Path, *flags: str, network: Namespace | None = None) -> Iterator[Sandbox]:
    """Runs until the block ends. ``folder`` gets its kubeconfig and its log; ``network`` is its namespace."""
    kubeconfig = folder / "kubeconfig"
    enter = () if network is None else network.enter
    sandbox = (sys.executable, "-m", "zoneward", "sandbox", "--port=0", f"--write-kubeconfig={kubeconfig}")
    with Process((*enter, *sandbox, *flags), log=folder / "sandbox.log") as process:
        wait_until(kubeconfig.exists, "a sandbox", process)
        known = yaml.safe_load(kubeconfig.read_text())
        address = str(known["clusters"][0]["cluster"]["server"])
        api = Api(address, known["users"][0]["user"]["token"])
        yield Sandbox(kubeconfig, address, api, process.pid)
        api.close()
