"""One control plane for all tests that can share it: each of them uses its own namespace or nodes."""

import os
from collections.abc import Iterator

import pytest
from e2e.control_plane import ControlPlane
from e2e.programs import ProgramsError, find_programs
from tests.foreground import heed_ctrl_c

heed_ctrl_c()


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
