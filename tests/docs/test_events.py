"""The page about events has every event and every condition's reason that the code knows, and no other."""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import zoneward
from zoneward.controller.status.honored_condition import HonoredReason
from zoneward.controller.status.status_writer import OWN_CONDITION_TYPES
from zoneward.daemon.unreadable_objects import UNREADABLE
from zoneward.proxy import proxy_events
from zoneward.routing.rules import Reason
from zoneward.routing.service_events import _MESSAGES

SOURCE = Path(zoneward.__file__).parent
PAGE = (Path(__file__).parents[2] / "docs" / "metrics-and-events.md").read_text()
NEVER = {Reason.NOT_ASKED_FOR, Reason.NO_SELECTOR}
"""Of Services that have no conditions."""


def section(heading: str) -> str:
    return PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def events() -> Iterator[tuple[str, str]]:
    """Type and reason wherever the code makes an event."""
    for path in sorted(path for part in ("routing", "controller", "daemon") for path in SOURCE.glob(f"{part}/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or getattr(node.func, "id", "") != "ServiceEvent" or len(node.args) < 2:
                continue
            type_, reason = node.args[:2]
            assert isinstance(type_, ast.Constant), path
            if isinstance(reason, ast.Name):
                module = importlib.import_module(".".join(path.relative_to(SOURCE.parent).with_suffix("").parts))
                yield str(type_.value), str(getattr(module, reason.id))
            else:
                assert isinstance(reason, ast.Constant), path
                yield str(type_.value), str(reason.value)


def test_every_event_has_a_row_that_says_what_to_do_and_no_other_has() -> None:
    of_controller = section("Events").split("\n### ")[0]
    rows = set(re.findall(r"^\| (Normal|Warning) \| `(\w+)` \|", of_controller, re.MULTILINE))
    assert ("Warning", "TopologyAwareRoutingDisabled") in rows
    assert rows == set(events())


def test_every_event_of_the_node_proxy_has_a_row_that_says_what_to_do_and_no_other_has() -> None:
    of_proxy = section("Events").split("\n### Events of the node proxy\n")[1]
    rows = re.findall(r"^\| Warning \| `(\w+)` \| \S.* \| \S.* \|$", of_proxy, re.MULTILINE)
    assert sorted(rows) == sorted(
        [
            proxy_events.ADDRESS_CONTESTED,
            proxy_events.NO_HEALTH_PORT,
            proxy_events.NOT_PROGRAMMED,
            proxy_events.PARTLY_PROGRAMMED,
            UNREADABLE,
        ]
    )
    assert proxy_events.CONTROLLER in of_proxy


def test_every_message_of_a_warning_has_a_row_of_its_own() -> None:
    rows = re.findall(r"^\| Warning \| `\w+` \| `([^`]+)` \| \S", section("Events"), re.MULTILINE)
    assert {message.format(endpoints="n") for message in _MESSAGES.values()} <= set(rows)
    assert len(set(rows)) == len(rows)


def test_every_reason_and_type_of_a_condition_has_a_row_and_no_other_has() -> None:
    rows = re.findall(r"^\| `([^`]+)` \|", section("Conditions"), re.MULTILINE)
    reasons = [reason.value for reason in (*Reason, *HonoredReason) if reason not in NEVER]
    assert sorted(rows) == sorted([*OWN_CONDITION_TYPES, *reasons])
