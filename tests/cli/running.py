"""Commands run in this process, with what they printed."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from zoneward.advice.json_value import to_json
from zoneward.cli.main import run
from zoneward.cli.options import Options
from zoneward.cli.planned_services import select_services
from zoneward.report.manifests import slices_document

SAMPLE = Path(__file__).parents[2] / "src/zoneward/sample/cluster.yaml"
MEASURED = SAMPLE.with_name("measured.jsonl")
"""Of the sample."""


@cache
def sample_objects() -> tuple[dict[str, Any], ...]:
    """Those of the sample cluster, which nobody may change."""
    return tuple(filter(None, yaml.load_all(SAMPLE.read_bytes(), yaml.CSafeLoader)))


@cache
def sample_slices(**options: Any) -> bytes:
    """The slices that a plan of the sample cluster writes, with these fields of ``Options``."""
    selected = select_services(Options(sample=True, quiet=True, **options))
    return to_json(slices_document(selected.plans))


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

    def json(self, *arguments: str | Path) -> Any:
        """The document that a command prints with ``-o json``."""
        result = self(*arguments, "-o", "json")
        assert result.status == 0, result.err
        return json.loads(result.out)

    def refused(self, *arguments: str | Path) -> str:
        """The one line about bad usage or bad input, with exit status 2 and nothing on standard output."""
        result = self(*arguments)
        assert (result.status, result.out) == (2, "")
        assert result.err.startswith("zoneward: ")
        assert result.err.count("\n") == 1
        assert result.err.rstrip("\n").isprintable()
        return result.err


def configuration_file(directory: Path, text: str) -> Path:
    """A ZonewardConfiguration with these settings."""
    file = directory / "configuration.yaml"
    file.write_text(f"apiVersion: zoneward.dev/v1alpha1\nkind: ZonewardConfiguration\n{text}\n")
    return file
