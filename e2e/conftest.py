"""One control plane for all tests that can share it: each of them uses its own namespace or nodes."""

import os
from collections.abc import Iterator
from typing import Final

import pytest
from e2e.control_plane import ControlPlane
from e2e.programs import ProgramsError, find_programs
from tests.foreground import heed_ctrl_c

heed_ctrl_c()

_SLOWEST: Final = (
    "test_frozen_server.py",
    "test_overlay.py",
    "test_packages.py",
    "test_image.py",
    "test_take_over.py",
    "test_proxy_zones.py",
    "test_meter.py",
    "test_scenarios.py",
    "test_proxy_services.py",
    "test_controller_killed.py",
    "test_measured_demand.py",
    "test_proxy_faults.py",
    "test_controller_leading.py",
)
"""Files that take a minute or longer. They start first, so that the run does not end with one of them alone."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = {name: index for index, name in enumerate(_SLOWEST)}
    items.sort(key=lambda item: order.get(item.path.name, len(order)))


@pytest.fixture(scope="session", autouse=True)
def _programs_are_built() -> None:
    """A missing program fails every test, in one line: skipped tests would look like passed ones."""
    try:
        find_programs(environment=os.environ)
    except ProgramsError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """Without controllers. Its user "reader" has no permissions at first."""
    with ControlPlane() as plane:
        yield plane
