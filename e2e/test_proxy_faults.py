"""Whatever goes wrong on a node, its Services go on, and soon all is as it should be.

``ZONEWARD_SCHEDULES=200`` runs more of the random schedules. What fails says its seed, with which
``ZONEWARD_SCHEDULE_SEED`` runs the same one again, first of all.
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

SCHEDULES: Final = int(os.environ.get("ZONEWARD_SCHEDULES") or 12)
SEED: Final = int(os.environ.get("ZONEWARD_SCHEDULE_SEED") or 1)
_AT_ONCE: Final = 3
"""They mostly wait: two cores are enough for so many."""


def test_services_go_on_and_the_kernel_converges_whatever_fails(tmp_path: Path) -> None:
    """Schedules of five seconds each, side by side; see `e2e.proxy_faults`."""

    def found(seed: int) -> list[str]:
        folder = tmp_path / str(seed)
        folder.mkdir()
        try:
            return run(seed, folder)
        except Exception as error:
            # The others go on, and tell what they found.
            return [f"seed {seed}: {''.join(traceback.format_exception(error))}"]

    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        wrong = [line for some in pool.map(found, range(SEED, SEED + SCHEDULES)) for line in some]
    assert not wrong, "\n".join(wrong)


def test_a_schedule_with_a_real_control_plane(tmp_path: Path) -> None:
    """The first of those in which its API server is killed and the proxy too."""
    wanted = {"server killed", "both killed"}
    seed = next(seed for seed in count(SEED) if wanted <= {fault.kind for fault in schedule(seed)})
    with ControlPlane() as plane:
        wrong = run(seed, tmp_path, server=PlaneServer(plane))
    assert not wrong, "\n".join(wrong)
