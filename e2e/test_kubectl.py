"""kubectl prints the same of a sandbox and of a real API server; it says in one line what is not supported."""

import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from difflib import unified_diff
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Final

import pytest
from e2e.control_plane import ControlPlane
from e2e.kubectl_cases import OWN, SCENARIOS, Case, Scenario, sent
from e2e.programs import find_programs
from e2e.sandbox import a_sandbox

_LIMIT: Final = 120.0
"""Seconds that one command may take; those that wait have shorter limits."""


_SUBSTITUTES: Final = tuple(
    (re.compile(pattern, re.MULTILINE), replacement)
    for pattern, replacement in (
        # A line of kubectl's own log.
        (r"^[EWI]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ ", "LOG "),
        # At random over HTTP/1.1, with a real server as well: whether it sees first that its time is up, or that it has
        # closed its connection for that. Over HTTP/2 it does not happen.
        (r"^LOG reflector\.go.*(very short watch|Failed to watch|watch ended with error).*\n", ""),
        (r"https?://(127\.0\.0\.1|localhost|\[::1\]):\d+", "SERVER"),
        (r"(127\.0\.0\.1|localhost|\[::1\]):\d+", "SERVER"),
        (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "UID"),
        (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)", "TIME"),
        (r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "TIME"),
        (r"""(resourceVersion"?: ?"?|Resource Version: +)\d+""", r"\1VERSION"),
        (r"\b10\.(9[6-9]|10\d|11[01])\.\d+\.\d+\b", "CLUSTER_IP"),
        (r"\b3[0-2]\d{3}\b", "NODE_PORT"),
        (r"\bmade-[bcdfghjklmnpqrstvwxz2456789]{5}\b", "made-RANDOM"),
        (r"(?<![\w.:/=-])(\d+[ydhms]){1,2}(?![\w./-])", "AGE"),
        (r"/tmp/\S+", "FILE"),
        # Columns are as wide as what is in them was.
        (r"(?<=\S)[ \t]{2,}", "  "),
        (r"[ \t]+$", ""),
    )
)


def normalized(text: str, *, lines: str = "") -> str:
    """Without what differs from run to run: ages, times, uids, versions, ports, addresses, names of files."""
    if lines:
        text = "".join(line for line in text.splitlines(keepends=True) if re.search(lines, line))
    for pattern, replacement in _SUBSTITUTES:
        text = pattern.sub(replacement, text)
    return text


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is to be the same."""

    status: int
    output: str
    errors: str

    def lines(self) -> list[str]:
        return [f"exit status {self.status}", *self.output.splitlines(), "stderr:", *self.errors.splitlines()]


def run_case(case: Case, *, namespace: str, kubeconfig: Path, home: Path) -> Outcome:
    """``home`` keeps what kubectl keeps between commands; each server needs another."""
    kubectl = str(find_programs(environment=os.environ)["kubectl"])
    # A command that names another namespace has the last word: kubectl takes the last flag.
    command = [kubectl, "--kubeconfig", str(kubeconfig), "--namespace", namespace, *shlex.split(case.command)]
    environment = {"HOME": str(home), "PATH": os.environ.get("PATH", ""), "KUBE_EDITOR": case.editor, "TZ": "UTC"}
    try:
        done = subprocess.run(
            command, input=case.stdin, capture_output=True, text=True, env=environment, cwd=home, timeout=_LIMIT
        )
    except subprocess.TimeoutExpired:
        return Outcome(-1, "", f"takes more than {_LIMIT:.0f} s")
    output, errors = (normalized(text, lines=case.lines) for text in (done.stdout, done.stderr))
    return Outcome(done.returncode, output, errors)


def run_scenario(scenario: Scenario, kubeconfig: Path, home: Path) -> list[Outcome]:
    return [run_case(case, namespace=scenario.namespace, kubeconfig=kubeconfig, home=home) for case in scenario.cases]


def differences(scenario: Scenario, real: Sequence[Outcome], sandbox: Sequence[Outcome]) -> list[str]:
    """One text for each case whose outcomes differ."""
    return [
        f"kubectl {case.command}\n"
        + "\n".join(unified_diff(one.lines(), other.lines(), "real", "sandbox", lineterm=""))
        for case, one, other in zip_longest(scenario.cases, real, sandbox)
        if one != other
    ]


@pytest.fixture(scope="module")
def real() -> Iterator[Path]:
    """A kubeconfig. With the controllers that make deleted namespaces go."""
    controllers = ("garbage-collector-controller", "namespace-controller")
    with ControlPlane(controllers=controllers) as plane:
        yield plane.kubeconfig()


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with a_sandbox(tmp_path_factory.mktemp("sandbox")) as sandbox:
        yield sandbox.kubeconfig


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_session_is_the_same_on_both_servers(scenario: Scenario, real: Path, sandbox: Path, tmp_path: Path) -> None:
    homes = [tmp_path / name for name in ("real", "sandbox")]
    for home in homes:
        home.mkdir()
    # Side by side: much of a session is waiting.
    with ThreadPoolExecutor(len(homes)) as threads:
        outcomes = list(threads.map(partial(run_scenario, scenario), (real, sandbox), homes))
    differing = differences(scenario, *outcomes)
    report = "\n\n".join(differing)
    assert not differing, f"{len(differing)} of {len(scenario.cases)} commands differ:\n\n{report}"


INSTEAD = "or use a real cluster, KWOK or kind"
UNSUPPORTED = {
    "server-side apply: use kubectl apply without --server-side": "apply --server-side -f -",
    "JSON patch: use a merge patch or a strategic merge patch": "patch service kubernetes --type=json -p '[]'",
    "bodies in protobuf: send JSON, as kubectl create -f does": "create service clusterip made --tcp=80",
}


@pytest.mark.parametrize("what", UNSUPPORTED)
def test_unsupported_request_is_reported_in_one_line(what: str, sandbox: Path, tmp_path: Path) -> None:
    outcome = run_case(sent(UNSUPPORTED[what], OWN), namespace="default", kubeconfig=sandbox, home=tmp_path)
    assert outcome.status == 1
    assert outcome.errors.count("\n") == 1
    assert f"the sandbox does not support {what}, {INSTEAD}" in outcome.errors
