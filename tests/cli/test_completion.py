"""Real shells, and what kubectl reads, complete commands, values, and names of the cluster or the files on the line."""

import os
import pty
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import click
import pytest
import yaml
from release.shared_files import SHARE
from tests.cli.live_cluster import Cluster, configuration
from tests.cli.running import SAMPLE, Commands
from tests.patience import PATIENCE

from zoneward.cli import completion
from zoneward.cli.kubectl_completion import candidates
from zoneward.cli.main import cli


@pytest.fixture(autouse=True)
def _machine_may_be_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may need longer than users wait."""
    monkeypatch.setattr(completion, "TIME_LIMIT", PATIENCE)


TRY = """
PATH="$1:$PATH"
source <(zoneward completion bash)
compopt() { echo "compopt $*"; }
COMP_LINE="$2" COMP_POINT="$3"
_zoneward_completion zoneward
printf '%s\\n' "${COMPREPLY[@]}"
complete -p zoneward
"""


ZSHRC = """
PATH="$ZDOTDIR:$PATH"
[[ $INSTALLED == yes ]] && fpath=("$ZDOTDIR" $fpath)
autoload -Uz compinit
compinit -u -D
[[ $INSTALLED == yes ]] || source <(zoneward completion zsh)
zle-line-init() {
    for attempt in 1 2; do
        BUFFER="$TYPED" CURSOR=$#TYPED
        zle complete-word
        print -r -- "$BUFFER" >> "$ZDOTDIR/completed"
    done
    exit
}
zle -N zle-line-init
"""


def install_program(folder: Path) -> None:
    """Without a time limit, as in this process."""
    code = "from zoneward.cli import completion, main; completion.PROCESS_TIME_LIMIT = 0; main.main()"
    program = folder / "zoneward"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{code}" "$@"\n')
    program.chmod(0o755)


def in_zsh(folder: Path, line: str, *, installed: bool) -> list[str]:
    """The line after a Tab at its end, twice. ``installed``: zsh loads the file, as a package installs it."""
    install_program(folder)
    (folder / ".zshrc").write_text(ZSHRC)
    shutil.copy(SHARE / "zsh/site-functions/_zoneward", folder)
    terminal, shell = pty.openpty()
    environment = {"ZDOTDIR": str(folder), "TYPED": line, "INSTALLED": "yes" if installed else "no", "TERM": "xterm"}
    subprocess.run(
        ["zsh", "-d", "-i"], stdin=shell, stdout=shell, stderr=shell, cwd=folder, env={**os.environ, **environment},
        check=True, start_new_session=True, timeout=PATIENCE,
    )  # fmt: skip
    os.close(terminal)
    os.close(shell)
    return (folder / "completed").read_text().splitlines()


def in_fish(folder: Path, line: str, **environment: str) -> list[str]:
    """What fish would offer for a line, each with a tab and its description."""
    install_program(folder)
    script = 'set PATH $argv[1] $PATH; zoneward completion fish | source; complete -C "$argv[2]"'
    done = subprocess.run(
        ["fish", "--no-config", "-c", script, str(folder), line],
        cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=True, timeout=PATIENCE,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.splitlines()


def in_bash(folder: Path, line: str, **environment: str) -> list[str]:
    """What bash would offer for a line."""
    before, _, after = line.partition("|")
    install_program(folder)
    words = ["bash", "--norc", "-c", TRY, "bash", str(folder), before + after, str(len(before))]
    done = subprocess.run(
        words, env={**os.environ, **environment}, capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert done.stderr == ""
    *completions, registered = done.stdout.splitlines()
    assert registered == "complete -o nosort -F _zoneward_completion zoneward"
    return [completion for completion in completions if completion]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("zoneward pl", ["plan"]),
        ("zoneward compa| --sample", ["compare"]),
        ("zoneward plan --what-if=PreferSameN", ["PreferSameNode"]),
        ("zoneward plan --sample -n ", ["kube-system", "payments", "shop"]),
        ("zoneward plan -f cluster/", ["compopt -o default"]),
        ('zoneward plan -f "a folder with ', ["compopt -o default"]),
        ("zoneward plan --context arn:aws:eks:", ["eu:1:cluster/a", "eu:1:cluster/b"]),
    ],
)
def test_bash_completes(tmp_path: Path, line: str, expected: list[str]) -> None:
    """Names of contexts have colons, at which bash splits words. The cursor is at the end, or where there is a |."""
    document = configuration("http://127.0.0.1:1")
    for name in ("a", "b"):
        context = {"cluster": "here", "user": "me"}
        document["contexts"].append({"name": f"arn:aws:eks:eu:1:cluster/{name}", "context": context})
    document["contexts"].append({"name": "arn:aws:eks:$(reboot)", "context": context})
    (tmp_path / "config").write_text(yaml.safe_dump(document))
    assert in_bash(tmp_path, line, KUBECONFIG=str(tmp_path / "config")) == expected


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_a_script_that_asks_for_their_own_form(zoneward: Commands, shell: str) -> None:
    result = zoneward("completion", shell)
    assert result.status == 0
    assert f"_ZONEWARD_COMPLETE={shell}_complete" in result.out


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("zoneward rou", "zoneward route "),
        ("zoneward plan --what-if=PreferSameN", "zoneward plan --what-if=PreferSameNode "),
        ("zoneward plan --filename=one", "zoneward plan --filename=one\\ file "),
        ('zoneward plan --sample "shop/catal', 'zoneward plan --sample "shop/catalog" '),
    ],
)
@pytest.mark.parametrize("installed", [False, True])
def test_zsh_completes(tmp_path: Path, line: str, expected: str, installed: bool) -> None:
    (tmp_path / "one file").touch()
    assert in_zsh(tmp_path, line, installed=installed) == [expected, expected]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("zoneward pl", ["plan\tShow which endpoints each zone would use, and why."]),
        ("zoneward compare --only none,local-s", ["none,local-shared"]),
        ("zoneward plan --what-if=PreferSameN", ["--what-if=PreferSameNode"]),
        ("zoneward plan --filename=one", ["--filename=one file"]),
        ("zoneward plan --filename=none", []),
        ('zoneward plan -f "one ', ["one file"]),
        ("zoneward plan --sample shop/cat", ["shop/catalog"]),
    ],
)
def test_fish_completes(tmp_path: Path, line: str, expected: list[str]) -> None:
    (tmp_path / "one file").touch()
    assert in_fish(tmp_path, line) == expected


def names(*words: str) -> list[str]:
    """The candidates for kubectl, with the directive to complete no files."""
    *matches, directive = candidates(words).splitlines()
    assert directive == ":4"
    return matches


FROM_FILES = [
    (("plan", "--sample", "-n", ""), ["kube-system", "payments", "shop"]),
    (("plan", "-f", str(SAMPLE), "-n", "sh"), ["shop"]),
    (("plan", "--sample", "shop/ca"), ["shop/cart", "shop/catalog"]),
    (("plan", "--sample", "pay"), ["payments/api", "payments/bank-gateway", "payments/ledger"]),
    (("plan", "--sample", "-n", "shop", "cart", "ca"), ["cart", "catalog"]),
    (("plan", "--sample", "svc/pay"), ["svc/payments/api", "svc/payments/bank-gateway", "svc/payments/ledger"]),
    (("route", "--sample", "--node", "worker-b"), [f"worker-b{index}" for index in range(1, 9)]),
    (("compare", "--only", "none,local-s"), ["none,local-shared"]),
    (("compare", "--sort", "g"), ["gain"]),
    (("plan", "--what-if", "PreferSame"), ["PreferSameZone", "PreferSameNode"]),
    (("plan", "--sample", "--without-node", "worker-b1"), ["worker-b1"]),
    (("proxy", "--sample", "--node", "worker-b1"), ["worker-b1"]),
    (
        ("simulate", "-a", "random,local-"),
        [f"random,local-{name}" for name in ("kep-tool", "opt", "shared", "weighted")],
    ),
    (("simulate", "--encoding", ""), ["all", "both", "hints", "slice-groups", "weights"]),
    (("snapshot", "-o", ""), ["json", "yaml"]),
    (("completion", "z"), ["zsh"]),
]
LIVE = [
    (("plan", "-n", ""), ["kube-system", "payments", "shop"]),
    (("plan", "-n", "shop", "-n", "p"), ["payments"]),
    (("plan", "ca"), ["cart", "catalog"]),
    (("plan", "-n", "payments", ""), ["api", "bank-gateway", "ledger"]),
    (("plan", "payments/a"), ["payments/api"]),
    (("plan", "svc/ca"), ["svc/cart", "svc/catalog"]),
    (("plan", "service/payments/a"), ["service/payments/api"]),
    (("plan", "-A", "payments/a"), ["payments/api"]),
    (("plan", "-A", "kube-system/k"), ["kube-system/kube-dns"]),
    (("plan", "--context", ""), ["here", "there"]),
    (("plan", "--context", "there", ""), ["api", "bank-gateway", "ledger"]),
    (("adopt", "-n", "payments", "a"), ["api"]),
    (("adopt", "shop/ca"), ["shop/cart", "shop/catalog"]),
    (("route", "--node", "worker-b"), [f"worker-b{index}" for index in range(1, 9)]),
]


@pytest.mark.parametrize(("words", "expected"), FROM_FILES, ids=str)
def test_names_come_from_the_files_on_the_line(words: tuple[str, ...], expected: list[str]) -> None:
    assert names(*words) == expected


@pytest.mark.usefixtures("cluster")
def test_names_come_from_the_cluster() -> None:
    assert [names(*words) for words, _ in LIVE] == [expected for _, expected in LIVE]


def test_commands_come_with_what_they_do() -> None:
    assert names("rou") == ["route\tShow which endpoints the proxy on one node would select."]
    assert names("--v") == ["--version\tPrint the version and exit."]


def file_options() -> list[tuple[str, str]]:
    """Each command with each option that takes the name of a file or a directory."""
    ctx = click.Context(cli)
    return [
        (command, option.opts[-1])
        for command in cli.list_commands(ctx)
        for option in getattr(cli.get_command(ctx, command), "params", ())
        if isinstance(option, click.Option) and re.search("FILE|PATH|DIRECTORY", option.metavar or "")
    ]


@pytest.mark.parametrize(("command", "option"), file_options())
def test_files_are_left_to_the_shell(command: str, option: str) -> None:
    assert candidates((command, option, "x")) in (":0\n", ":16\n")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("plan", "--demand", "e"), "even\n:0\n"),
        (("report", "--measured", ""), "prometheus\n:0\n"),
        (("simulate", "--dataset", "kep"), "kep\nkep-permuted\n:0\n"),
    ],
)
def test_names_come_before_files(words: tuple[str, ...], expected: str) -> None:
    assert candidates(words) == expected


def test_errors_offer_nothing_and_say_nothing(
    cluster: Cluster, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    broken, large = tmp_path / "broken.yaml", tmp_path / "large.json"
    broken.write_text("{")
    with large.open("wb") as opened:
        opened.truncate(2 << 20)
    for file in (broken, large, tmp_path / "missing", "-"):
        assert names("plan", "-f", str(file), "-n", "") == []
    assert names("plan", "--kubeconfig", str(broken), "") == []
    assert names("plan", "--context", "nowhere", "-n", "") == []
    cluster.server.refusals.update(namespaces=403, services=403)
    assert names("plan", "-n", "") == []
    assert names("plan", "") == []
    assert names("plan", "--no-such-option", "--no") == []
    assert capfd.readouterr() == ("", "")


def test_names_that_a_shell_would_read_differently_are_not_offered(cluster: Cluster) -> None:
    for name in ("cart;reboot", "cart$(reboot)", "cart\x1b[31m", "cart two"):
        cluster.server.put("services", name, "shop")
    assert names("plan", "cart") == ["cart"]


def test_a_server_that_does_not_answer_offers_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion, "TIME_LIMIT", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        kubeconfig = tmp_path / "config"
        kubeconfig.write_text(yaml.safe_dump(configuration(f"http://127.0.0.1:{silent.getsockname()[1]}")))
        assert names("plan", "--kubeconfig", str(kubeconfig), "-n", "") == []


@pytest.mark.parametrize("words", [("plan", "-n", "shop", ""), ("route", "--node", "")], ids=str)
def test_a_name_that_a_command_would_take_for_an_option_is_not_offered(
    cluster: Cluster, words: tuple[str, ...]
) -> None:
    cluster.server.put("services", "--all", "shop")
    cluster.server.put("nodes", "--all")
    assert names(*words)
    assert "--all" not in names(*words)
