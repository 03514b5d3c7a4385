"""The documentation is true: its commands run as shown, its lists are complete, its links lead somewhere.

``python tests/docs/test_documentation.py --update`` writes what the commands print today into the pages.
"""

import ast
import importlib
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import BytesIO, StringIO, TextIOWrapper
from itertools import product
from pathlib import Path
from typing import get_args
from urllib.parse import urlsplit

import click
import msgspec
import pytest

from zoneward import sample
from zoneward.advice.actions import Advice
from zoneward.advice.decisions import DecisionDocument, LoadComparison, SkippedService
from zoneward.advice.explanation import Explanation
from zoneward.advice.fixes import FixKind
from zoneward.advice.honored_traffic import NodeTraffic
from zoneward.advice.traffic_report import ServiceReport, SettingTotal
from zoneward.cli.main import cli
from zoneward.cli.main import run as cli_run
from zoneward.controller import overlay_reconciler
from zoneward.controller.demand_follower import MeasuredReason
from zoneward.controller.status.honored_condition import HonoredReason
from zoneward.controller.status.status_writer import OWN_CONDITION_TYPES
from zoneward.daemon.unreadable_objects import UNREADABLE
from zoneward.kube import names
from zoneward.proxy import proxy_reporter
from zoneward.proxy.proxy_configuration import DEFAULT_PORT, HEALTHZ_PORT
from zoneward.proxy.ruleset.base_rules import base_sets
from zoneward.report.route_report import NodeRoutes
from zoneward.report.traffic_json import CrossingFigures, MeasuringReport, ZoneFlow
from zoneward.routing import request
from zoneward.routing import service_events as events
from zoneward.routing.algorithms.proportional_zone_cpu import least_endpoints
from zoneward.routing.configuration import FeatureGates
from zoneward.routing.demand import compute_demand
from zoneward.routing.measured_demand import FigureProblem
from zoneward.routing.rules import Reason
from zoneward.routing.selection.endpoint_selection import SelectionRule
from zoneward.snapshots.cluster_snapshot import read_snapshot

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "zoneward"
DOCS = ROOT / "docs"
EXAMPLE = ROOT / "examples" / "configuration.yaml"
PAGES = (
    *(ROOT / name / "README.md" for name in (".", "deploy", "examples")),
    *(DOCS / "site" / "index.md", *sorted(DOCS.glob("*.md"))),
)
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

    All commands of a page run in one directory, in order. It has the sample cluster as ``cluster.yaml``, what is
    measured in it as ``measured.jsonl``, and the project's ``examples``. A line ``...`` of a page matches any number of
    lines.
    """
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "cluster.yaml").write_bytes(sample.cluster().read_bytes())
        (directory / "measured.jsonl").write_bytes(sample.measured().read_bytes())
        (directory / "examples").symlink_to(ROOT / "examples")

        def block(match: re.Match[str]) -> str:
            lines = []
            for command, shown in commands(match[1]):
                printed = run(command, directory)
                lines += [f"$ {command}", *(shown if is_as_shown(printed, shown) else abridged(printed, shown))]
            return "\n".join(("```console", *lines, "```"))

        return _CONSOLE.sub(block, page.read_text())


_COLUMNS = "100"
"""Of the terminal that pages show."""


def commands(block: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of a block, and the lines shown behind it."""
    assert block.startswith("$ "), f"a console block starts with a command, not with {block.splitlines()[0]!r}"
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, *shown = part.splitlines()
        yield command, shown


def run(command: str, directory: Path) -> list[str]:
    """What a command prints. Zoneward's own run in this process, which takes no time to start; what the shell does with
    their output is left to a shell, and so is any other command, and one whose exit status is shown."""
    if not command.startswith("zoneward ") or ";" in command:
        return in_a_shell(command, directory).splitlines()
    own, *rest = re.split(r" (?=[|>] )", command, maxsplit=1)
    out, err = TextIOWrapper(BytesIO(), encoding="utf-8"), StringIO()
    os.environ["COLUMNS"] = _COLUMNS
    try:
        with chdir(directory), redirect_stdout(out), redirect_stderr(err if rest else out):
            cli_run(shlex.split(own)[1:])
    finally:
        del os.environ["COLUMNS"]
    out.flush()
    printed = out.buffer.getvalue().decode()
    if rest:
        printed = err.getvalue() + in_a_shell(f"cat {rest[0]}", directory, printed)
    return printed.splitlines()


def in_a_shell(command: str, directory: Path, given: str = "") -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=directory,
        env={"PATH": path, "HOME": str(directory), "LC_ALL": "C.UTF-8", "COLUMNS": _COLUMNS},
        input=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    return done.stdout


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


SLOW_PAGES = {"your-own-algorithm.md"}
"""With commands that compile machine code."""


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.slow) if page.name in SLOW_PAGES else page
        for page in PAGES
        if _CONSOLE.search(page.read_text())
    ],
    ids=name_of,
)
def test_every_command_prints_what_the_page_shows(page: Path) -> None:
    assert replayed(page) == page.read_text(), f"run: python {name_of(Path(__file__))} --update"


# --- complete lists ---------------------------------------------------------------------------------------------------


def listed(page: str) -> list[str]:
    """The code in the first cell of any table row of a page."""
    return [code for row in re.findall(r"^\| ([^|]*)", text_of(page), re.MULTILINE) for code in codes(row)]


def codes(text: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", text)


def rule_names() -> set[str]:
    """Every name that the code gives to a rule, found where rules are recorded."""
    names = set()
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        if not re.search(r"\b(?:record|require|decide|_passes|Rule|NumberAnnotation)\(", text):
            continue
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            first = node.args[0]
            if called in ("record", "require", "decide", "_passes", "Rule") and isinstance(first, ast.Constant):
                names.add(str(first.value))
            elif called in ("record", "require", "decide", "_passes", "Rule") and isinstance(first, ast.JoinedStr):
                assert ast.unparse(first) == "f'gate-{rule}'", "a new kind of rule name: teach this test to find it"
            elif called == "NumberAnnotation":
                names.add(str(ast.literal_eval(node.args[1])))
    source = Path(request.__file__).read_text()
    gates = (name.replace("_", "-") for name in FeatureGates.__struct_fields__)
    return names | {f"gate-{gate}" for gate in gates if f'"{gate}"' in source}


def test_the_rules_page_lists_every_rule_reason_and_message() -> None:
    names = rule_names()
    assert {"annotation", "gate-service-traffic-distribution", "overload-threshold", "slices-of-others"} < names
    section = text_of("rules.md").split("## The rules, one by one")[1].split("\n## ")[0]
    assert set(re.findall(r"^- `([^`]+)`", section, re.MULTILINE)) == names
    assert {reason.value for reason in Reason} <= set(listed("rules.md"))
    messages = events._UPSTREAM_MESSAGES.values()
    assert {message.format(detail="...") for message in messages} <= set(codes(text_of("rules.md")))


_VERSIONED_PROXY = re.compile(r"(?:kube-proxy|cilium)-1\.\d")
"""A kind of proxy that the page has as a range of versions."""


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
                    choices = map(str, parameter.type.choices)
                    yield from ((name, choice) for choice in choices if not _VERSIONED_PROXY.match(choice))


def test_the_commands_page_has_every_command_option_and_value() -> None:
    documented = set(codes(text_of("commands.md")))
    pairs = set(spoken_options())
    assert ("plan", "--what-if") in pairs
    assert ("route", "no-hints") in pairs
    assert {(command, word) for command, word in pairs if not {f"zoneward {command}", word} <= documented} == set()


def json_fields(*documents: type, without: tuple[type, ...] = ()) -> set[str]:
    """The names and fixed values of all fields of some documents, at any depth; without those that other sections
    describe.
    """
    names = set[str]()
    left = list(msgspec.inspect.multi_type_info(documents))
    for info in left:
        if isinstance(info, msgspec.inspect.StructType):
            if info.cls in without:
                continue
            names |= {field.encode_name for field in info.fields}
            parts = [field.type for field in info.fields]
        else:
            if isinstance(info, msgspec.inspect.LiteralType):
                names |= set(map(str, info.values))
            values = (getattr(info, name, ()) for name in ("types", "item_types", "item_type", "value_type"))
            parts = [part for value in values for part in (value if isinstance(value, tuple) else (value,))]
        left += [part for part in parts if part not in left]
    return names


def test_the_pages_list_every_field_of_json_documents_and_every_rule_of_selection() -> None:
    # What is measured is on another page.
    documented = set(codes(text_of("commands.md"))) | {"external"}
    assert (
        json_fields(DecisionDocument, SkippedService, NodeRoutes) | {rule.value for rule in SelectionRule} <= documented
    )
    kinds = set(listed("explain.md"))
    advised = (DOCS / "commands.md").read_text().split("### advise -o json\n")[1].split("\n## ")[0]
    assert json_fields(Advice) <= set(codes(advised)) | kinds
    explained = (DOCS / "commands.md").read_text().split("### explain -o json\n")[1].split("\n## ")[0]
    assert json_fields(Explanation, without=(LoadComparison, NodeTraffic)) <= set(codes(explained)) | kinds
    reported = text_of("report.md").split("## JSON\n")[1].split("\n## ")[0]
    assert json_fields(CrossingFigures, MeasuringReport, NodeTraffic, ServiceReport, SettingTotal, ZoneFlow) <= set(
        codes(reported)
    )


def test_the_page_of_explain_has_a_row_for_every_kind_of_fix_and_bypass() -> None:
    kinds = set(get_args(FixKind))
    source = (SOURCE / "advice" / "bypass.py").read_text()
    bypasses = set(re.findall(r"Bypass\(\s*\"([a-z-]+)\"", source)) | {mesh for mesh, _ in names.MESH_LABELS.values()}
    assert {"headless", "istio"} < bypasses
    assert kinds | bypasses <= set(listed("explain.md"))


def test_the_table_of_minimums_in_the_rules_is_what_the_algorithm_computes() -> None:
    with tempfile.NamedTemporaryFile(suffix=".yaml") as file:
        file.write(sample.cluster().read_bytes())
        file.flush()
        demand = compute_demand(read_snapshot([file.name], stdin=None).nodes)
    rows = re.findall(r"^\| (\d+) \| ([\d +]+) = (\d+) \| (yes|no) \|", text_of("rules.md"), re.MULTILINE)
    assert len(rows) > 5
    for endpoints, documented, total, possible in rows:
        needed = [least_endpoints(int(endpoints), weight, demand.total, 1, 5) for weight in demand.weights]
        assert documented.split(" + ") == [str(count) for count in needed], endpoints
        assert (int(total), possible) == (sum(needed), "yes" if sum(needed) <= int(endpoints) else "no"), endpoints


# --- single pages -----------------------------------------------------------------------------------------------------


def section(page: str, heading: str) -> str:
    return (DOCS / page).read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]


def test_the_architecture_has_a_line_for_every_package_and_names_paths_that_exist() -> None:
    text, packages = (DOCS / "architecture.md").read_text(), SOURCE
    rows = set(re.findall(r"^\| `(\w+)/` \|", text, re.MULTILINE))
    assert rows == {path.parent.name for path in packages.glob("*/__init__.py")} - {"sample"}
    for path in set(re.findall(r"`([a-z_]+/[a-z_/]*(?:\.py)?)`", text)):
        # The rooms of a package are named without it, in the line of the package.
        assert (packages / path).exists() or (ROOT / path).exists() or list(packages.glob(f"*/{path}")), path


OF_THE_CONTROLLER = {
    "a list or watch broke off",
    "an Event could not be written",
    "a request could not be answered",
    "exiting immediately",
}


def log_lines(program: str) -> set[str]:
    """Every line that a program logs."""
    files = [*sorted((SOURCE / program).rglob("*.py")), SOURCE / "cli" / f"{program}.py"]
    return {
        line
        for file in files
        for line in re.findall(r"\b_?log\.(?:info|warning|error)\(\s*\"([^\"]+)\"", file.read_text())
    }


def unexplained(lines: set[str], page: str) -> set[str]:
    documented = set(codes("\n".join(re.findall(r"^\| .*", section(page, "Troubleshooting"), re.MULTILINE))))
    return {line for line in lines if line.split(":")[0] + ": ..." not in documented} - documented


def test_the_page_of_the_proxy_has_every_line_of_its_log_every_map_and_its_ports() -> None:
    page, said = "run-the-proxy.md", log_lines("proxy")
    assert "all Services are programmed" in said
    assert unexplained(said, page) <= OF_THE_CONTROLLER
    rows = re.findall(r"^\| (`.*)", section(page, "How it works"), re.MULTILINE)
    named = {name for row in rows if "|" in row for name in re.findall(r"`([a-z-]+)`", row)}
    assert named == set(base_sets("ip"))
    assert f"`127.0.0.1:{DEFAULT_PORT}` by default" in section(page, "Status")
    assert f"`:{HEALTHZ_PORT}`" in section(page, "Health checks for load balancers")


def test_the_page_of_the_meter_has_every_line_of_its_log() -> None:
    said = log_lines("meter")
    assert "counting connections" in said
    assert not unexplained(said, "meter.md")


def service_events() -> Iterator[tuple[str, str]]:
    """Type and reason wherever the controller's code makes an event."""
    for path in sorted(path for part in ("routing", "controller", "daemon") for path in SOURCE.glob(f"{part}/**/*.py")):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "ServiceEvent(" in text else ():
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "ServiceEvent" and len(node.args) > 1:
                type_, reason = node.args[:2]
                types = [type_.body, type_.orelse] if isinstance(type_, ast.IfExp) else [type_]
                assert all(isinstance(type_, ast.Constant) for type_ in types), path
                if isinstance(reason, ast.Name):
                    module = importlib.import_module(".".join(path.relative_to(SOURCE.parent).with_suffix("").parts))
                    reasons = [str(getattr(module, reason.id))]
                elif isinstance(reason, ast.Attribute):
                    reasons = [getattr(subject, reason.attr) for subject in events.EventSubject]
                else:
                    reasons = [str(ast.literal_eval(reason))]
                yield from product((str(ast.literal_eval(type_)) for type_ in types), reasons)


def test_the_page_of_events_has_a_row_for_every_event_and_reason_and_no_other() -> None:
    """Each event's row says what to do."""
    page = "metrics-and-events.md"
    of_controller = section(page, "Events").split("\n### ")[0]
    of_proxy = section(page, "Events").split("\n### Events of the node proxy\n")[1]
    rows = set(re.findall(r"^\| (Normal|Warning) \| `(\w+)` \|", of_controller, re.MULTILINE))
    assert ("Warning", "TopologyAwareRoutingDisabled") in rows
    assert rows == set(service_events())
    documented = re.findall(r"^\| Warning \| `(\w+)` \| \S.* \| \S.* \|$", of_proxy, re.MULTILINE)
    assert set(documented) == {
        proxy_reporter.ADDRESS_CONTESTED,
        proxy_reporter.NO_HEALTH_PORT,
        proxy_reporter.NOT_PROGRAMMED,
        proxy_reporter.PARTLY_PROGRAMMED,
        UNREADABLE,
    }
    assert proxy_reporter.CONTROLLER in of_proxy
    messages = re.findall(r"^\| Warning \| `\w+` \| `([^`]+)` \| \S", section(page, "Events"), re.MULTILINE)
    assert {message.format(endpoints="n") for message in events._MESSAGES.values()} <= set(messages)
    assert len(set(messages)) == len(messages)
    # Of Services without conditions.
    never = {Reason.NOT_ASKED_FOR, Reason.NO_SELECTOR}
    reasons = (*Reason, *HonoredReason, *MeasuredReason, *FigureProblem)
    known = {reason.value for reason in reasons if reason not in never} | {*OWN_CONDITION_TYPES}
    known |= {overlay_reconciler.NOT_APPLIED, overlay_reconciler.REFUSED}
    assert set(re.findall(r"^\| `([^`]+)` \|", section(page, "Conditions"), re.MULTILINE)) == known


# --- links ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=name_of)
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", _FENCED.sub("", page.read_text())):
        link = urlsplit(target)
        if link.scheme:
            continue
        linked = (page.parent / link.path).resolve() if link.path else page
        assert linked.exists(), target
        assert not link.fragment or link.fragment in anchors(linked), target


def anchors(page: Path) -> set[str]:
    text = _FENCED.sub("", page.read_text())
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    named = re.findall(r'<a name="([\w-]+)"></a>', text)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}.union(named)


def test_every_page_can_be_reached_from_the_readme() -> None:
    linked = set(re.findall(r"\(docs/([\w-]+\.md)", (ROOT / "README.md").read_text()))
    assert "develop.md" in linked
    linked |= set(re.findall(r"\(([\w-]+\.md)", (DOCS / "develop.md").read_text()))
    assert [page.name for page in DOCS.glob("*.md") if page.name not in linked] == []


if __name__ == "__main__":
    if sys.argv[1:] != ["--update"]:
        sys.exit(f"usage: python {sys.argv[0]} --update")
    for page in PAGES:
        page.write_text(replayed(page))
