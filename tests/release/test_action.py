"""``action.yml``: its steps run as a runner runs them, except the one that installs and the one that comments."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from tests.builders.new_user_clusters import eks_with_a_thin_zone, write_list

ROOT: Final = Path(__file__).parents[2]
ACTION: Final[dict[str, Any]] = yaml.safe_load((ROOT / "action.yml").read_text())
MANIFEST: Final = """\
apiVersion: v1
kind: Service
metadata: {name: plain-01, namespace: shop}
spec: {trafficDistribution: PreferClose, selector: {app: plain-01}, ports: [{port: 80}]}
"""


class Runner:
    """Runs the steps of the action by their names, in a separate directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        binaries = directory / "zoneward" / "bin"
        binaries.mkdir(parents=True)
        (binaries / "zoneward").symlink_to(Path(sys.executable).parent / "zoneward")
        write_list(eks_with_a_thin_zone(), directory / "cluster.json")
        (directory / "manifests").mkdir()
        (directory / "manifests" / "plain.yaml").write_text(MANIFEST)

    def run(self, name: str, **inputs: str) -> int:
        given = {key: value.get("default", "") for key, value in ACTION["inputs"].items()}
        given |= {"snapshot": "cluster.json", "manifests": "manifests"} | inputs
        (step,) = [step for step in ACTION["runs"]["steps"] if step["name"] == name]
        environment = {
            "PATH": os.environ["PATH"],
            "RUNNER_TEMP": str(self.directory),
            "GITHUB_STEP_SUMMARY": str(self.directory / "summary"),
            "GITHUB_OUTPUT": str(self.directory / "output"),
        }
        for variable, text in step["env"].items():
            environment[variable] = given[text.removeprefix("${{ inputs.").removesuffix(" }}")]
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        return subprocess.run(command, cwd=self.directory, env=environment, check=False).returncode


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


def test_the_summary_says_what_changes(runner: Runner) -> None:
    assert runner.run("Traffic") == 0
    text = (runner.directory / "summary").read_text()
    assert "**Zoneward**: 1 Service changes" in text
    assert "| `shop/plain-01` | 33% -> 100% | +36% | `trafficDistribution: none -> PreferClose` |" in text


def test_manifests_may_be_on_several_lines(runner: Runner) -> None:
    (runner.directory / "more").mkdir()
    (runner.directory / "more" / "plain.yaml").write_text(MANIFEST.replace("plain-01", "plain-02"))
    assert runner.run("Traffic", manifests="manifests\nmore\n") == 0
    assert "**Zoneward**: 2 Services change" in (runner.directory / "summary").read_text()
    (runner.directory / "more" / "plain.yaml").write_text("kind: [")
    assert runner.run("Check", manifests="manifests\nmore\n") == 2


def test_findings_are_written_and_fail_as_asked(runner: Runner) -> None:
    assert runner.run("Check") == 1
    findings = json.loads((runner.directory / "zoneward.sarif").read_text())["runs"][0]["results"]
    assert "ZW406" in {finding["ruleId"] for finding in findings}
    assert (runner.directory / "output").read_text() == f"sarif={runner.directory}/zoneward.sarif\n"
    assert runner.run("Check", **{"fail-on": "never"}) == 0


def test_bad_manifests_fail(runner: Runner) -> None:
    (runner.directory / "manifests" / "bad.yaml").write_text("kind: [")
    assert runner.run("Traffic") == 2


def test_inputs_reach_scripts_by_the_environment_alone() -> None:
    """Text of a pull request in a script would be run by it."""
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step["run"]
