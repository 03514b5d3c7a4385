"""Services of a node stay reachable during faults, and the kernel's rules converge afterwards.

``ZONEWARD_SCHEDULES=200`` runs more of the random schedules. A failure prints its seed; ``ZONEWARD_SCHEDULE_SEED=SEED``
starts with that schedule.
"""

import os
import traceback
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Final

from e2e.api_servers import PlaneServer
from e2e.control_plane import ControlPlane
from e2e.proxy_faults import run, schedule

SCHEDULES: Final = int(os.environ.get("ZONEWARD_SCHEDULES") or 6)
SEED: Final = int(os.environ.get("ZONEWARD_SCHEDULE_SEED") or 1)
_AT_ONCE: Final = 3
"""Schedules that run in parallel; they mostly wait."""


def test_services_stay_reachable_and_the_kernel_converges_during_faults(tmp_path: Path) -> None:
    """Schedules of five seconds each, in parallel; see `e2e.proxy_faults`."""

    def problems_of(seed: int) -> list[str]:
        folder = tmp_path / str(seed)
        folder.mkdir()
        try:
            return run(seed, folder)
        except Exception as error:
            # The other schedules continue and report their own problems.
            return [f"seed {seed}: {''.join(traceback.format_exception(error))}"]

    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        wrong = [line for lines in pool.map(problems_of, range(SEED, SEED + SCHEDULES)) for line in lines]
    assert not wrong, "\n".join(wrong)


def test_a_schedule_with_a_real_control_plane(tmp_path: Path) -> None:
    """The first schedule that kills both the API server and the proxy."""
    wanted = {"server killed", "both killed"}
    seed = next(seed for seed in count(SEED) if wanted <= {fault.kind for fault in schedule(seed)})
    with ControlPlane() as plane:
        wrong = run(seed, tmp_path, server=PlaneServer(plane))
    assert not wrong, "\n".join(wrong)
