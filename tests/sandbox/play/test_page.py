"""The page on plays lists every field, and no other."""

import re
from pathlib import Path

import pytest
from msgspec import Struct

from zoneward.sandbox.play import play_file
from zoneward.sandbox.play.play_file import Play, Step, play_from

PAGE = (Path(__file__).parents[3] / "docs" / "plays.md").read_text()
LISTS: dict[str, type[Struct]] = {
    "### The play": Play,
    "### Nodes": play_file.NodeGroup,
    "### Workloads": play_file.Workload,
    "Fields of a workload's `rollout`": play_file.RollingUpdate,
    "Fields of a workload's `service`": play_file.WorkloadService,
    "Each step has": Step,
    "`scale`: ": play_file.Scale,
    "`rollout`: all its pods": play_file.RollOut,
    "`flap`: ": play_file.Flap,
    "`outage`: ": play_file.Outage,
    "`removeNodes`: ": play_file.NodeSelection,
}


def items(beginning: str) -> set[str]:
    """The fields that the items of the list behind that beginning describe."""
    lines = re.search(r"(^- .*\n(  .*\n)*)+", PAGE[PAGE.index(beginning) :], re.MULTILINE)
    assert lines is not None
    described = re.findall(r"^- ((?:`[^`]+`(?:, )?)+): ", lines[0], re.MULTILINE)
    return {field for fields in described for field in re.findall(r"`([^`]+)`", fields)}


@pytest.mark.parametrize("beginning", LISTS)
def test_the_list_of_a_mapping_has_its_fields(beginning: str) -> None:
    actions = set(re.findall(r"^`(\w+)`: ", PAGE, re.MULTILINE))
    struct = LISTS[beginning]
    assert items(beginning) | (actions if struct is Step else set()) == set(struct.__struct_encode_fields__)


def test_the_play_on_the_page_is_one() -> None:
    block = re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert block is not None
    assert len(play_from("plays.md", block[1].encode()).steps) == 2
