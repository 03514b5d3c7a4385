"""The time that everything of a release bears, so that two builds of one commit give the same bytes.

``SOURCE_DATE_EPOCH`` is the variable that reproducible-builds.org specifies, and that most build tools read.
"""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

VARIABLE: Final = "SOURCE_DATE_EPOCH"
ROOT: Final = Path(__file__).parents[1]


class SourceDateError(Exception):
    """One line: what was expected, and what was found."""


def source_date(*, environment: Mapping[str, str], root: Path = ROOT) -> int:
    """Seconds since 1970: ``SOURCE_DATE_EPOCH`` where it is set, else the time of the last commit.

    Raises SourceDateError where it is no whole number, and where it is unset and ``root`` is no clone.
    """
    if given := environment.get(VARIABLE):
        if not (given.isascii() and given.isdigit()):
            raise SourceDateError(f"{VARIABLE}: expected seconds since 1970, got {given!r}")
        return int(given)
    command = ("git", "-C", str(root), "log", "-1", "--format=%ct")
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=dict(environment))
    except OSError as error:
        raise SourceDateError(f"expected {VARIABLE} or git, got neither ({error.strerror})") from error
    if done.returncode:
        raise SourceDateError(f"expected {VARIABLE} or a clone, got {done.stderr.strip()!r} for {root}")
    return int(done.stdout)
