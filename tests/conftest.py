"""Property tests look at other examples every time, but in CI at the same ones: a commit passes there or does not."""

import os

from hypothesis import settings
from tests.foreground import heed_ctrl_c

settings.register_profile("ci", derandomize=True, print_blob=True, deadline=None)
if os.environ.get("CI"):
    settings.load_profile("ci")
heed_ctrl_c()
