"""The page on plays lists every field and fault, and no other."""

import re
from pathlib import Path

import pytest
from msgspec import Struct

from zoneward.sandbox.play import play_file
from zoneward.sandbox.play.play_file import Play, Step, play_from
from zoneward.sandbox.server.faults import FaultKind

PAGE = (Path(__file__).parents[3] / "docs" / "plays.md").read_text()
TABLES: dict[str, type[Struct]] = {
    "### The play": Play,
    "### Nodes": play_file.NodeGroup,
    "### Workloads": play_file.Workload,
    "| field of `rollout` |": play_file.RollingUpdate,
    "| field of `service` |": play_file.WorkloadService,
    "| field of a step |": Step,
    "`rollout`: all its pods": play_file.RollOut,
    "| field of `scale` |": play_file.Scale,
    "| field of `autoscale` |": play_file.Autoscale,
    "| field of `autoscale.points` |": play_file.CurvePoint,
    "| field of `autoscale.wave` |": play_file.Wave,
    "| field of `flap` |": play_file.Flap,
    "| field of `outage` |": play_file.Outage,
    "| field of `drain` |": play_file.Drain,
    "| field of `removeNodes` |": play_file.NodeSelection,
}


def rows(beginning: str) -> set[str]:
    """The first cells of the table that begins there, or follows."""
    table = re.search(r"(^\| .*\n)+", PAGE[PAGE.index(beginning) :], re.MULTILINE)
    assert table is not None
    return set(re.findall(r"^\| `([^`]+)` \|", table[0], re.MULTILINE))


@pytest.mark.parametrize("beginning", TABLES)
def test_the_table_of_a_mapping_lists_its_fields(beginning: str) -> None:
    actions = set(re.findall(r"^`(\w+)`: ", PAGE, re.MULTILINE))
    struct = TABLES[beginning]
    assert rows(beginning) | (actions if struct is Step else set()) == set(struct.__struct_encode_fields__)


def test_the_table_of_faults_lists_every_kind() -> None:
    assert rows("## Faults") == set(FaultKind)


def test_the_play_on_the_page_is_one() -> None:
    block = re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert block is not None
    assert len(play_from("plays.md", block[1].encode()).steps) == 2
