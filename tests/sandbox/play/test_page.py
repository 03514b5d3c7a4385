"""The page on plays lists every field and fault, and no other."""

import re
from pathlib import Path

import pytest

from zoneward.sandbox.play.play_file import FIELDS, STEP, STEP_ACTIONS, play_from
from zoneward.sandbox.server.faults import FaultKind

PAGE = (Path(__file__).parents[3] / "docs" / "plays.md").read_text()
TABLES = {
    "": "### The play",
    "nodes": "### Nodes",
    "workloads": "### Workloads",
    "workloads.rollout": "| field of `rollout` |",
    "workloads.service": "| field of `service` |",
    "scale": "| field of `scale` |",
    "rollout": "`rollout`: all its pods",
    "autoscale": "| field of `autoscale` |",
    "autoscale.points": "| field of `autoscale.points` |",
    "autoscale.wave": "| field of `autoscale.wave` |",
    "flap": "| field of `flap` |",
    "outage": "| field of `outage` |",
    "drain": "| field of `drain` |",
    "addNodes": "| field of `addNodes` |",
    "removeNodes": "| field of `removeNodes` |",
}


def rows(beginning: str) -> list[str]:
    """The first cells of the table that begins there, or follows."""
    table = re.search(r"(^\| .*\n)+", PAGE[PAGE.index(beginning) :], re.MULTILINE)
    assert table is not None
    return re.findall(r"^\| `([^`]+)` \|", table[0], re.MULTILINE)


def test_every_mapping_has_a_table() -> None:
    assert TABLES.keys() == FIELDS.keys()


@pytest.mark.parametrize("name", FIELDS)
def test_the_table_of_a_mapping_lists_its_fields(name: str) -> None:
    assert rows(TABLES[name]) == list(FIELDS[name])


def test_the_table_of_steps_lists_their_fields_and_each_happening_has_a_paragraph() -> None:
    assert rows("| field of a step |") == list(STEP)
    assert re.findall(r"^`(\w+)`: ", PAGE, re.MULTILINE) == list(STEP_ACTIONS)


def test_the_table_of_faults_lists_every_kind() -> None:
    assert rows("## Faults") == list(FaultKind)


def test_the_play_on_the_page_is_one() -> None:
    block = re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert block is not None
    assert len(play_from("plays.md", block[1].encode()).steps) == 2
