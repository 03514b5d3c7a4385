"""A mistake in the program, as a line of the log tells it."""

import traceback
from pathlib import Path
from typing import Final

_FRAMES: Final = 3
"""Of the stack, from where it was raised."""


def raised_at(error: BaseException) -> str:
    """Where it was raised, and who called that: ``syncing.py:91 sync < loop.py:260 _work``."""
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    return " < ".join(f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in reversed(frames))
