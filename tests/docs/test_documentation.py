"""The documentation is true: its commands run as shown, its lists are complete, its links lead somewhere.

``python tests/docs/test_documentation.py --update`` writes what the commands print today into the pages.
"""

import ast
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from urllib.parse import urlsplit

import click
import msgspec
import pytest
import yaml

from zoneward import sample
from zoneward.cli.main import cli
from zoneward.controller.controller_configuration import ControllerConfiguration, read_controller_configuration
from zoneward.kube.input_error import ConfigurationError
from zoneward.kube.objects import Condition, ServiceEvent
from zoneward.proxy.proxy_configuration import ProxyConfiguration, read_proxy_configuration
from zoneward.report.plan_json import DecisionView, SkippedView, SlicesView, ZoneView
from zoneward.report.route_report import NodeRoutes, PortRoute
from zoneward.routing import service_events as events
from zoneward.routing.algorithms.proportional_zone_cpu import least_endpoints
from zoneward.routing.configuration import Configuration, FeatureGates, configuration_from
from zoneward.routing.demand import compute_demand
from zoneward.routing.request import approach
from zoneward.routing.rules import Reason, Rule
from zoneward.routing.selection.endpoint_selection import SelectionRule
from zoneward.snapshots.cluster_snapshot import read_snapshot

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
EXAMPLE = ROOT / "examples" / "configuration.yaml"
PAGES = tuple(ROOT / each / "README.md" for each in (".", "deploy", "examples")) + tuple(sorted(DOCS.glob("*.md")))
_CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def text_of(page: str) -> str:
    """What a page says, without its blocks of code."""
    return _FENCED.sub("", (DOCS / page).read_text())


# --- commands ---------------------------------------------------------------------------------------------------------


def replayed(page: Path) -> str:
    """The page with what its commands really print, where that is not what it shows already.

    All commands of a page run in one directory, in order. It has the sample cluster as ``cluster.yaml`` and the
    project's ``examples``. A line ``...`` of a page stands for any number of lines.
    """
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "cluster.yaml").write_bytes(sample.cluster().read_bytes())
        (directory / "examples").symlink_to(ROOT / "examples")

        def block(match: re.Match[str]) -> str:
            lines = []
            for command, shown in commands(match[1]):
                printed = run(command, directory)
                lines += [f"$ {command}", *(shown if is_as_shown(printed, shown) else abridged(printed, shown))]
            return "\n".join(("```console", *lines, "```"))

        return _CONSOLE.sub(block, page.read_text())


def commands(block: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of a block, and the lines shown behind it."""
    assert block.startswith("$ "), f"a console block starts with a command, not with {block.splitlines()[0]!r}"
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, *shown = part.splitlines()
        yield command, shown


def run(command: str, directory: Path) -> list[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    # Machine code of the lab is kept where it always is: that it is compiled anew on each page says nothing.
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    environment = {"PATH": path, "HOME": str(directory), "LC_ALL": "C.UTF-8", "XDG_CACHE_HOME": cache}
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=directory,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout.splitlines()


def is_as_shown(printed: list[str], shown: list[str]) -> bool:
    pattern = "".join("(?:.*\n)*" if line == "..." else re.escape(f"{line}\n") for line in shown)
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in printed)) is not None


def abridged(printed: list[str], shown: list[str]) -> list[str]:
    """What was printed, with dots where the page has them: behind as many lines, and before as many."""
    if "..." not in shown:
        return printed
    head = shown.index("...")
    tail = len(shown) - head - 1
    return [*printed[:head], "...", *printed[len(printed) - tail :]]


@pytest.mark.parametrize("page", [page for page in PAGES if _CONSOLE.search(page.read_text())], ids=name_of)
def test_every_command_prints_what_the_page_shows(page: Path) -> None:
    assert replayed(page) == page.read_text(), f"run: python {name_of(Path(__file__))} --update"


def test_a_line_of_dots_stands_for_any_number_of_lines_and_for_nothing_else() -> None:
    assert is_as_shown(["a", "b", "c"], ["a", "...", "c"])
    assert is_as_shown(["a", "c"], ["a", "...", "c"])
    assert not is_as_shown(["a", "b", "d"], ["a", "...", "c"])
    assert not is_as_shown(["a", "b"], ["a"])


# --- complete lists ---------------------------------------------------------------------------------------------------


def listed(page: str) -> list[str]:
    """What stands as code in the first cell of any table row of a page."""
    return [code for row in re.findall(r"^\| ([^|]*)", text_of(page), re.MULTILINE) for code in codes(row)]


def codes(text: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", text)


def rule_names() -> set[str]:
    """Every name that the code gives to a rule, found where rules are recorded."""
    found = set()
    for path in (ROOT / "src" / "zoneward").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            first = node.args[0]
            if called in ("record", "_passes", "Rule") and isinstance(first, ast.Constant):
                found.add(str(first.value))
            elif called in ("record", "_passes", "Rule") and isinstance(first, ast.JoinedStr):
                assert ast.unparse(first) == "f'gate-{rule}'", "a new kind of rule name: teach this test to find it"
            elif called == "NumberAnnotation":
                found.add(str(ast.literal_eval(node.args[1])))
    source = Path(approach.__file__).read_text()
    gates = (gate.name.replace("_", "-") for gate in fields(FeatureGates))
    return found | {f"gate-{gate}" for gate in gates if f'"{gate}"' in source}


def test_the_rules_page_lists_every_rule_and_no_other() -> None:
    names = rule_names()
    assert {"annotation", "gate-service-traffic-distribution", "overload-threshold", "slices-of-others"} < names
    section = text_of("rules.md").split("## The rules, one by one")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `([^`]+)`", section, re.MULTILINE)) == names


@pytest.mark.parametrize("reason", Reason)
def test_the_rules_page_lists_the_reason(reason: Reason) -> None:
    assert reason.value in listed("rules.md")


@pytest.mark.parametrize("message", sorted({*events._MESSAGES.values(), *events._UPSTREAM_MESSAGES.values()}))
def test_the_rules_page_shows_the_message_of_the_event(message: str) -> None:
    assert message.format(endpoints="n", detail="...") in codes(text_of("rules.md"))


def configuration_keys() -> list[str]:
    """Every key that a configuration may have, as the refusal of an unknown one tells it."""
    keys = ["apiVersion", "kind"]
    for section in ("", "featureGates", "hints", "subsetting"):
        document = {"apiVersion": "zoneward.dev/v1alpha1", "kind": "ZonewardConfiguration"}
        with pytest.raises(ConfigurationError) as refused:
            configuration_from({**document, **({section: {"?": 1}} if section else {"?": 1})})
        known = str(refused.value).split("expected one of ")[1].split(", got ")[0].split(", ")
        keys += [f"{section}.{key}" if section else key for key in known]
    sections: tuple[tuple[str, Callable[[object], object], object], ...] = (
        ("controller", read_controller_configuration, {"?": 1}),
        ("controller.leaderElection", read_controller_configuration, {"leaderElection": {"?": 1}}),
        ("proxy", read_proxy_configuration, {"?": 1}),
    )
    for prefix, read, wrong in sections:
        with pytest.raises(ConfigurationError) as refused:
            read(wrong)
        known = str(refused.value).split("expected one of ")[1].split(", got ")[0].split(", ")
        keys += [f"{prefix}.{key}" for key in known]
    names = ("featureGates", "hints", "subsetting", "controller", "controller.leaderElection", "proxy")
    return [key for key in keys if key not in names]


def test_the_configuration_page_lists_every_key_and_no_other() -> None:
    keys = configuration_keys()
    assert {"hints.keepThreshold", "featureGates.ServiceTopology", "maxEndpointsPerSlice"} < set(keys)
    assert sorted(listed("configuration.md")) == sorted(keys)


def test_the_example_configuration_has_every_key_and_equals_the_defaults() -> None:
    document = yaml.safe_load(EXAMPLE.read_text())
    assert sorted(flat(document)) == sorted(configuration_keys())
    assert configuration_from(document) == Configuration()
    assert read_controller_configuration(document["controller"]) == ControllerConfiguration()
    assert read_proxy_configuration(document["proxy"]) == ProxyConfiguration()


def flat(document: dict[str, object], prefix: str = "") -> Iterator[str]:
    for key, value in document.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


def spoken_options() -> Iterator[tuple[str, str]]:
    """Each command with each of its options and of the values that these take."""
    with click.Context(cli) as context:
        for name in cli.list_commands(context):
            command = cli.get_command(context, name)
            assert command is not None
            for parameter in command.params:
                if isinstance(parameter, click.Option):
                    yield from ((name, option) for option in parameter.opts)
                if isinstance(parameter.type, click.Choice):
                    yield from ((name, str(choice)) for choice in parameter.type.choices)


def test_the_commands_page_has_every_command_option_and_value() -> None:
    told = set(codes(text_of("commands.md")))
    pairs = set(spoken_options())
    assert ("plan", "--what-if") in pairs
    assert ("route", "no-hints") in pairs
    assert {(command, word) for command, word in pairs if not {f"zoneward {command}", word} <= told} == set()


VIEWS = (DecisionView, ZoneView, SlicesView, SkippedView, Rule, ServiceEvent, Condition, NodeRoutes, PortRoute)


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.__name__)
def test_the_commands_page_lists_every_field_of_the_json(view: type[msgspec.Struct]) -> None:
    told = listed("commands.md")
    assert [field.encode_name for field in msgspec.structs.fields(view) if field.encode_name not in told] == []


def test_the_commands_page_lists_every_rule_of_selection() -> None:
    assert {rule.value for rule in SelectionRule} <= set(listed("commands.md"))


def test_the_table_of_minimums_in_the_rules_is_what_the_algorithm_computes() -> None:
    with tempfile.NamedTemporaryFile(suffix=".yaml") as file:
        file.write(sample.cluster().read_bytes())
        file.flush()
        demand = compute_demand(read_snapshot([file.name], stdin=None).nodes)
    rows = re.findall(r"^\| (\d+) \| ([\d +]+) = (\d+) \| (yes|no) \|", text_of("rules.md"), re.MULTILINE)
    assert len(rows) > 5
    for endpoints, told, total, possible in rows:
        needed = [least_endpoints(int(endpoints), weight, demand.total, 1, 5) for weight in demand.weights]
        assert told.split(" + ") == [str(each) for each in needed], endpoints
        assert (int(total), possible) == (sum(needed), "yes" if sum(needed) <= int(endpoints) else "no"), endpoints


# --- links and addresses ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=name_of)
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", _FENCED.sub("", page.read_text())):
        link = urlsplit(target)
        if link.scheme:
            continue
        there = (page.parent / link.path).resolve() if link.path else page
        assert there.exists(), target
        assert not link.fragment or link.fragment in anchors(there), target


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", _FENCED.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_can_be_reached_from_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    assert [page.name for page in DOCS.glob("*.md") if f"docs/{page.name}" not in readme] == []


PUBLIC_HOSTS = {"www.apache.org", "github.com", "kubernetes.io", "www.w3.org"}
_URL = re.compile(r"\b(?:https?|ftp|git|oci|ssh)://([\w.-]*[\w-])")


def committed_files() -> Iterator[Path]:
    for path in ROOT.rglob("*"):
        parts = path.relative_to(ROOT).parts
        hidden = parts[0].startswith(".") and parts[0] not in (".ci", ".gitignore")
        built = any(part in ("build", "dist", "__pycache__") or part.endswith(".egg-info") for part in parts)
        if path.is_file() and not hidden and not built:
            yield path


def hosts_of_this_machine() -> set[str]:
    """Proxies and package registries that this machine was told to use, by the environment."""
    told = (value for name, value in os.environ.items() if re.search("proxy|index|registry|url", name, re.IGNORECASE))
    hosts = {host for value in told for host in _URL.findall(value) if "." in host} - PUBLIC_HOSTS
    # Numbers alone are no sign: tests are full of addresses of pods.
    return {host if re.search("[a-z]", host) else f"//{host}" for host in hosts}


def test_no_file_names_a_host_but_public_and_invented_ones() -> None:
    """Invented: reserved names (``.example``), names inside a cluster, single words; loopback and private addresses."""
    strange = set()
    for path in committed_files():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        strange |= {(name_of(path), host) for host in hosts_of_this_machine() if host in text}
        for host in _URL.findall(text):
            invented = host.endswith((".example", ".invalid", ".svc")) or host.startswith(("127.", "10."))
            if host not in PUBLIC_HOSTS and "." in host and not invented:
                strange.add((name_of(path), host))
    assert strange == set()


if __name__ == "__main__":
    if sys.argv[1:] != ["--update"]:
        sys.exit(f"usage: python {sys.argv[0]} --update")
    for each in PAGES:
        each.write_text(replayed(each))
