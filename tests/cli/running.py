"""Commands run in this process, with what they printed."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from zoneward.cli.main import run

SAMPLE = Path(__file__).parents[2] / "src/zoneward/sample/cluster.yaml"


@dataclass(frozen=True, slots=True)
class Result:
    """Exit status, standard output and standard error."""

    status: int
    out: str
    err: str


class Commands:
    """Runs commands and collects their output."""

    def __init__(self, captured: pytest.CaptureFixture[str]) -> None:
        self._captured = captured

    def __call__(self, *arguments: str | Path) -> Result:
        self._captured.readouterr()
        status = run([str(argument) for argument in arguments])
        captured = self._captured.readouterr()
        return Result(status, captured.out, captured.err)
