"""Property tests look at other examples every time, but in CI at the same ones: a commit passes there or does not."""

import os

import pytest
from hypothesis import settings
from tests.foreground import heed_ctrl_c

# How long an example takes tells of the machine, not of what must hold.
settings.register_profile("here", deadline=None)
settings.register_profile("ci", derandomize=True, print_blob=True, deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "here")
heed_ctrl_c()


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "what tests/contract and tests/scenarios run on: sandbox, real, or the path of a kubeconfig"
    parser.addoption("--server", default="sandbox", help=text)
