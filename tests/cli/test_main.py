"""The command itself: help, wrong usage, starting fast, ending quietly."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest
from tests.cli.running import MEASURED, SAMPLE, Commands
from tests.cli.test_measured import serving

from zoneward import __version__
from zoneward.cli.main import cli
from zoneward.cli.options import GroupedCommand

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
COMMANDS = ("plan", "route", "snapshot", "version", "completion")
LAB = ("numpy", "numba", "polars", "matplotlib", "distributed", "zoneward.lab", "zoneward.report")
HEAVY = ("msgspec", "rich", "yaml", "zoneward.slices", "zoneward.client", "zoneward.snapshots")


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",)])
def test_help_names_every_command(zoneward: Commands, arguments: tuple[str, ...]) -> None:
    result = zoneward(*arguments)
    assert result.status == 0
    for command in COMMANDS:
        assert f"\n  {command} " in result.out


def test_version_is_the_package_s(zoneward: Commands) -> None:
    assert zoneward("version").out.startswith(f"zoneward {__version__} ")
    assert zoneward("--version") == zoneward("version")


@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [
        (("--help",), HEAVY),
        (("simulate", "--help"), LAB),
        (("plan", "--sample"), ("asyncio", "aiohttp", "ssl", "concurrent.futures")),
    ],
)
def test_a_command_imports_only_what_it_needs(arguments: tuple[str, ...], heavy: tuple[str, ...]) -> None:
    code = f"import sys\nfrom zoneward.cli.main import run\nrun({[*arguments]})\nprint(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert [name for name in done.stdout.splitlines()[-1].split() if name.startswith(heavy)] == []


def test_a_reader_that_stops_early_is_no_error() -> None:
    command = f"set -o pipefail; {sys.executable} -m zoneward plan --sample -o json | head -c 10"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_it_is_a_kubectl_plugin_too() -> None:
    scripts = tomllib.loads(PROJECT.read_text())["project"]["scripts"]
    assert scripts["kubectl-zoneward"] == scripts["zoneward"]
    assert scripts["kubectl_complete-zoneward"] == "zoneward.cli.kubectl_completion:main"


@pytest.mark.parametrize(
    "command",
    [
        ("explain", "shop/inventory"),
        ("explain", "shop/inventory", "-o", "html"),
        ("compare", "shop/inventory"),
        ("compare", "shop/inventory", "-o", "html"),
        ("check",),
        ("report", "--measured", MEASURED),
        ("report", "--measured", MEASURED, "-o", "html"),
    ],
    ids=str,
)
def test_no_command_names_a_value_that_the_cluster_refuses(
    zoneward: Commands, tmp_path: Path, command: tuple[str | Path, ...]
) -> None:
    """The sample with older kubelets, and without what it asks for by the new name."""
    old = tmp_path / "old.yaml"
    text = SAMPLE.read_text().replace("v1.37.2", "v1.33.4")
    old.write_text(text.replace("PreferSameZone", "PreferClose").replace("PreferSameNode", "PreferClose"))
    result = zoneward(*command, "-f", old)
    assert result.status in (0, 1), result.err
    out = result.out.replace("<wbr />", "")
    assert "PreferClose" in out
    assert "PreferSameZone" not in out


def test_plugins_of_a_kubeconfig_work_where_the_parent_ignores_the_end_of_its_children(tmp_path: Path) -> None:
    """The kernel would forget their exit status: asyncio said "Unknown child process", and the login failed."""
    credential = '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"t"}}'
    login = {"apiVersion": "client.authentication.k8s.io/v1", "command": "echo", "args": [credential]}
    with serving(403, b"") as url:
        kubeconfig = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": {"server": url.removesuffix("/measured")}}],
            "users": [{"name": "u", "user": {"exec": login | {"interactiveMode": "Never"}}}],
        }
        (tmp_path / "kubeconfig").write_text(json.dumps(kubeconfig))
        command = [sys.executable, "-m", "zoneward", "plan", "--kubeconfig", str(tmp_path / "kubeconfig")]
        code = f"import os, signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.executable, {command})"
        done = subprocess.run(
            [sys.executable, "-c", f"import sys; {code}"], check=False, capture_output=True, text=True
        )
    assert done.stderr.count("\n") == 1, done.stderr
    assert "you may not list " in done.stderr


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (("plan",), "Plan"),
        (("explain", "shop/cart"), "Explanation"),
        (("compare",), "Comparison"),
        (("check",), "Check"),
        (("report",), "Report"),
        (("advise",), "Advice"),
        (("route", "--node", "worker-a1"), "Route"),
    ],
)
def test_a_json_document_begins_with_its_version_and_kind(
    zoneward: Commands, arguments: tuple[str, ...], kind: str
) -> None:
    out = zoneward(*arguments, "-q", "--sample", "-o", "json").out
    assert list(json.loads(out).items())[:2] == [("apiVersion", "zoneward.dev/v1alpha1"), ("kind", kind)]


def grouped() -> list[str]:
    context = click.Context(cli)
    commands = ((name, cli.get_command(context, name)) for name in cli.list_commands(context))
    return [name for name, command in commands if isinstance(command, GroupedCommand)]


@pytest.mark.parametrize("name", grouped())
def test_every_option_is_in_one_group(zoneward: Commands, name: str) -> None:
    text = zoneward(name, "--help").out
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert len(re.findall(rf"^  .*{re.escape(parameter.opts[0])}\b(?!-)", text, re.MULTILINE)) >= 1
    headings = re.findall(r"^(\w[\w ]*):$", text, re.MULTILINE)
    assert headings[0] in ("Options", "Datasets")
    assert len(headings) == len(set(headings))
    assert {"Cluster or files", "Output"} <= set(headings)


def test_options_that_many_commands_have_follow_those_of_the_command(zoneward: Commands) -> None:
    text = zoneward("route", "--help").out
    first, _, rest = text.partition("Cluster or files:")
    assert "--node" in first
    assert "--kubeconfig" in rest
