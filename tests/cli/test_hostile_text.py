"""With any names, zones and messages, a person's terminal gets text in its lines, and nothing more."""

import json
import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cli.running import Commands, sample_objects

from zoneward.cli.options import Options
from zoneward.cli.planned_services import select_services
from zoneward.kube.safe_text import printable
from zoneward.report.plan_table import plan_parts
from zoneward.report.screens import watch_screen
from zoneward.report.terminal_text import Terminal, Text

HOSTILE: Final = (
    "x\x1b[2J\x1b]0;t\x07\x9b31m\r\n\u2028\u2066\u202e\u200b\u00ad\u3164\ud83d\ude00[red]\ufeff\t\x7f".encode(
        "utf-16", "surrogatepass"
    ).decode("utf-16")
)
"""What steers terminals, ends lines, turns them around or hides; it begins with a letter, so that names keep their
order."""
STYLE: Final = re.compile(r"\x1b\[[0-9;]*m")
KEPT: Final = frozenset(
    {
        *("apiVersion", "kind", "protocol", "addressType", "type", "status", "cpu", "ip", "podIP", "clusterIP"),
        *("phase", "internalTrafficPolicy", "externalTrafficPolicy", "trafficDistribution"),
        *("topology.kubernetes.io/zone", "endpointslice.kubernetes.io/managed-by"),
    }
)
"""Fields of which a reader knows the values: others are refused, or mean something else."""
KEPT_LISTS: Final = frozenset(("addresses", "clusterIPs", "ipFamilies", "forZones"))
COMMANDS: Final[dict[str, tuple[str, ...]]] = {
    "plan, in colour": ("plan", "--color", "always"),
    "plan, wide": ("plan", "--compat", "upstream", "-o", "wide"),
    "route": ("route", "--node", "worker-a2", "--as-is"),
    "advise": ("advise", "--top", "0"),
    "advise 1": ("advise", "1"),
    "check": ("check", "--top", "0"),
    "compare": ("compare",),
    "explain": ("explain", "shop/checkout"),
    "explain, what nobody knows": ("explain", "shop/wishlist"),
}


def with_ends(value: Any, end: str, *, annotations: bool, key: str = "") -> Any:
    """A document in which all text that nobody judges ends in this."""
    if isinstance(value, dict):
        if key == "annotations" and not annotations:
            return value
        return {
            name: held
            if name in KEPT or name in KEPT_LISTS
            else with_ends(held, end, annotations=annotations, key=name)
            for name, held in value.items()
        }
    if isinstance(value, list):
        return [with_ends(item, end, annotations=annotations, key=key) for item in value]
    return value + end if isinstance(value, str) else value


@cache
def cluster_text(end: str, *, annotations: bool) -> str:
    documents = [with_ends(document, end, annotations=annotations) for document in sample_objects()]
    documents.append({"apiVersion": "v1", "kind": f"Odd{end}"})
    return "\n".join(map(json.dumps, documents))


def cluster(folder: Path, end: str, *, annotations: bool) -> Path:
    file = folder / f"cluster-{len(end)}.json"
    file.write_text(cluster_text(end, annotations=annotations))
    return file


def is_clean(text: str) -> bool:
    return all(word.isprintable() for word in STYLE.sub("", text).split("\n"))


def with_end(argument: str, end: str) -> str:
    """A name as it is in the changed cluster."""
    if argument == "worker-a2" or "/" in argument:
        return "/".join(part + end for part in argument.split("/"))
    return argument


@pytest.mark.parametrize("command", COMMANDS)
def test_a_table_shows_question_marks_and_is_the_same_otherwise(
    zoneward: Commands, tmp_path: Path, command: str
) -> None:
    def shown(end: str, *, annotations: bool = False) -> str:
        file = cluster(tmp_path, end, annotations=annotations)
        arguments = [with_end(argument, end) for argument in COMMANDS[command]]
        done = zoneward(*arguments, "-f", file, "-v")
        assert done.status == 0, done.err
        assert is_clean(done.out)
        assert is_clean(done.err)
        return done.out

    shown(HOSTILE, annotations=True)
    hostile = shown(HOSTILE)
    if command.startswith("explain"):
        # JSON in commands has escapes, which are of another length.
        return
    tame = shown(printable(HOSTILE))
    # Which endpoint serves whom depends on a hash of its name.
    if command == "route":
        assert hostile.count("\n") == tame.count("\n")
    else:
        assert hostile == tame


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan", "-o", "json"),
        ("plan", "-o", "slices-json"),
        ("compare", "--only", "none", "-o", "json"),
        ("explain", "shop/checkout", "-o", "json"),
        ("route", "--node", "worker-a2", "-o", "json"),
        ("check", "-o", "json"),
        ("snapshot", "--file", "-"),
        ("advise", "-o", "json"),
    ],
    ids=" ".join,
)
def test_json_on_a_terminal_has_escapes_and_all_of_the_text(
    zoneward: Commands, tmp_path: Path, arguments: Sequence[str]
) -> None:
    done = zoneward(
        *(with_end(argument, HOSTILE) for argument in arguments), "-f", cluster(tmp_path, HOSTILE, annotations=True)
    )
    assert done.status in (0, 1), done.err
    assert is_clean(done.out)
    assert printable(done.out.replace("\n", "")) == done.out.replace("\n", "")
    assert json.dumps(HOSTILE)[1:-1] in json.dumps(json.loads(done.out))


@pytest.mark.parametrize("output", ["sarif", "html"])
def test_what_other_programs_read_of_a_check_has_no_controls(zoneward: Commands, tmp_path: Path, output: str) -> None:
    done = zoneward("check", "-f", cluster(tmp_path, HOSTILE, annotations=True), "-o", output, "--top", "0")
    assert (done.status, "ZW302" in done.out, "\x1b" in done.out) == (0, True, False)


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan", "nothing" + HOSTILE),
        ("plan", "-n", HOSTILE),
        ("plan", "-l", HOSTILE),
        ("plan", "--config", HOSTILE),
        ("plan", "-f", HOSTILE),
        ("plan", "--what-if", HOSTILE),
        ("route", "--node", HOSTILE),
        ("compare", "--only", HOSTILE),
        ("explain", HOSTILE),
        ("snapshot", "--file", "/nowhere/" + HOSTILE),
        ("simulate", "-d", HOSTILE),
        ("plan", "--kubeconfig", HOSTILE),
        ("sandbox", "--listen", HOSTILE),
        ("adopt", HOSTILE),
        (HOSTILE,),
    ],
    ids=lambda arguments: " ".join(arguments).partition("x\x1b")[0],
)
def test_an_error_is_one_line(zoneward: Commands, tmp_path: Path, arguments: Sequence[str]) -> None:
    needs = "-f" not in arguments and arguments[0] in ("plan", "route", "compare", "explain", "snapshot")
    file = (
        ["-f", str(cluster(tmp_path, HOSTILE, annotations=True))] if needs and "--kubeconfig" not in arguments else []
    )
    done = zoneward(*arguments, *file)
    assert is_clean(done.out + done.err)
    assert done.err.count("\n") == 1


def test_notes_and_snapshots_are_told_in_lines(zoneward: Commands, tmp_path: Path) -> None:
    file = cluster(tmp_path, HOSTILE, annotations=True)
    again = cluster(tmp_path / "..", HOSTILE, annotations=True)
    done = zoneward(
        "snapshot", "-f", file, "-f", again, "-v", "--file", tmp_path / f"out{HOSTILE}.json".replace("\0", "")
    )
    again.unlink()
    assert is_clean(done.err)
    assert "is a duplicate" in done.err
    assert all(line.startswith("zoneward: ") for line in done.err.splitlines())


def test_comments_before_slices_stay_comments(zoneward: Commands, tmp_path: Path) -> None:
    done = zoneward("plan", "-f", cluster(tmp_path, HOSTILE, annotations=False), "-o", "yaml")
    head, _, rest = done.out.partition("apiVersion: v1\n")
    assert all(line.startswith("#") for line in head.splitlines())
    assert is_clean(done.out)
    assert isinstance(yaml.load(f"apiVersion: v1\n{rest}", yaml.CSafeLoader), dict)


@pytest.mark.parametrize("wide", [False, True])
def test_the_screen_of_a_watch_is_clean(tmp_path: Path, wide: bool) -> None:
    planned = select_services(Options(files=(str(cluster(tmp_path, HOSTILE, annotations=False)),)))
    table_of = partial(plan_parts, demand=planned.cluster_state.demand, configuration=planned.configuration, wide=wide)
    for height in (6, 12, 100):
        lines = watch_screen(
            planned.plans,
            table_of,
            latest=(),
            marked=[(plan.service.metadata.namespace, plan.service.metadata.name) for plan in planned.plans[:2]],
            status=Text(HOSTILE),
            terminal=Terminal(100, height, color=True),
        )
        assert len(lines) <= height
        assert all(STYLE.sub("", line).isprintable() for line in lines)


@given(st.text(st.characters(categories=["Cc", "Cf", "Zl", "Zp", "Zs", "Co", "Lu", "Ll", "Mn", "So"])))
@settings(max_examples=150)
def test_any_text_is_seen_in_one_line_of_as_many_characters(text: str) -> None:
    ways: tuple[Callable[[], str], ...] = (
        lambda: printable(text),
        lambda: Text(text).plain,
        lambda: Text().append(text).append(Text(text)).plain[: len(text)],
        lambda: Text.assemble(text, (text, "bold")).plain[: len(text)],
    )
    for way in ways:
        assert way() == printable(text)
        assert way().isprintable()
        assert len(way()) == len(text)
