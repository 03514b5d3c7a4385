"""The date of a release: given, or that of the last commit."""

import subprocess
from pathlib import Path

import pytest
from release.source_date import SourceDateError, source_date

AUTHOR = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org"}
COMMITTER = {
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_COMMITTER_DATE": "@1700000000 +0100",
}
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "GIT_CONFIG_GLOBAL": "/dev/null"}


def test_the_variable_wins_and_else_the_last_commit_decides(tmp_path: Path) -> None:
    for command in (("init", "-q"), ("commit", "-q", "--allow-empty", "-m", "one")):
        subprocess.run(["git", *command], cwd=tmp_path, env=ENVIRONMENT | AUTHOR | COMMITTER, check=True)
    assert source_date(environment=ENVIRONMENT, root=tmp_path) == 1_700_000_000
    assert source_date(environment={"SOURCE_DATE_EPOCH": "12"}, root=tmp_path) == 12


@pytest.mark.parametrize(
    ("environment", "line"),
    [
        ({"SOURCE_DATE_EPOCH": "today"}, "SOURCE_DATE_EPOCH: expected seconds since 1970, got 'today'"),
        (ENVIRONMENT | {"GIT_CEILING_DIRECTORIES": "/"}, "expected SOURCE_DATE_EPOCH or a clone, got "),
        ({"PATH": "/nowhere"}, "expected SOURCE_DATE_EPOCH or git, got neither"),
    ],
)
def test_a_date_that_cannot_be_known_is_one_line(environment: dict[str, str], line: str, tmp_path: Path) -> None:
    with pytest.raises(SourceDateError, match=line):
        source_date(environment=environment, root=tmp_path)
