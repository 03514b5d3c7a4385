"""Property tests look at other examples every time, but in CI at the same ones: a commit passes there or does not."""

import os

import pytest
from hypothesis import settings
from tests.foreground import heed_ctrl_c

settings.register_profile("ci", derandomize=True, print_blob=True, deadline=None)
if os.environ.get("CI"):
    settings.load_profile("ci")
heed_ctrl_c()


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "what tests/contract and tests/scenarios run on: sandbox, real, or the path of a kubeconfig"
    parser.addoption("--server", default="sandbox", help=text)
