"""``docs/configuration.md`` and ``examples/configuration.yaml`` against the types of the settings."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, get_args, get_origin

import pytest
import yaml
from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo, fields

from zoneward.cli.configuration_file import ConfigurationFile, configuration_from
from zoneward.kube.schema import bare_type, is_struct
from zoneward.kube.settings import parse_duration, read_settings

ROOT: Final = Path(__file__).parent.parent.parent
HEAD: Final = {"apiVersion": "zoneward.dev/v1alpha1", "kind": "ZonewardConfiguration"}


class Row(NamedTuple):
    """A row of the page."""

    default: str
    values: str


def rows() -> dict[str, Row]:
    page = (ROOT / "docs" / "configuration.md").read_text()
    cells = (re.split(r"(?<!\\)\|", line) for line in page.splitlines() if line.startswith("| `"))
    return {key.strip().strip("`"): Row(*(cell.strip() for cell in rest[:2])) for _, key, *rest in cells}


def settings(type_: type[Struct] = ConfigurationFile, prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Every key of a configuration file with its field."""
    for field in fields(type_):
        inner, _ = bare_type(field.type)
        path = f"{prefix}{field.encode_name}"
        if is_struct(inner):
            yield from settings(inner, f"{path}.")
        else:
            yield path, field


KEYS: Final = dict(settings())
ROWS: Final = rows()


def test_the_page_and_the_example_have_every_key_and_no_other() -> None:
    assert {"hints.keepThreshold", "demand.prometheus.caFile", "controller.leaderElection.leaderElect"} < KEYS.keys()
    assert sorted(ROWS) == sorted(KEYS)
    example = yaml.safe_load((ROOT / "examples" / "configuration.yaml").read_text())
    assert sorted(flat(example)) == sorted(KEYS)
    assert configuration_from(example) == configuration_from(HEAD)


def flat(document: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in document.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


@pytest.mark.parametrize("key", [key for key in KEYS if key not in HEAD])
def test_the_page_has_the_default(key: str) -> None:
    default, text = KEYS[key].default, ROWS[key].default.strip("`")
    assert default is not NODEFAULT
    if default in (None, "", ()):
        assert "none" in text or ";" in text or "else" in text
        return
    section, _, name = key.rpartition(".")
    document: Any = {name: yaml.safe_load(text)}
    for part in filter(None, reversed(section.split("."))):
        document = {part: document}
    value: Any = read_settings({**HEAD, **document}, ConfigurationFile)
    for part in key.split("."):
        value = next(getattr(value, field.name) for field in fields(value) if field.encode_name == part)
    assert value == default


@pytest.mark.parametrize("key", KEYS)
def test_the_page_has_the_bounds_and_the_choices(key: str) -> None:
    type_, meta = bare_type(KEYS[key].type)
    values = ROWS[key].values
    if get_origin(type_) is Literal:
        assert all(f"`{choice}`" in values for choice in get_args(type_))
    limits = {(meta.extra or {}).get(name, getattr(meta, name)) for name in ("ge", "gt", "le")} - {None}
    written = re.findall(r"[0-9]+(?:e[0-9]+)?[smh]?", values)
    documented = {parse_duration(text) if text[-1] in "smh" else float(text) for text in written}
    assert {float(limit) for limit in limits} <= documented | {0.0}


def test_a_whole_number_is_named() -> None:
    for key, field in KEYS.items():
        type_, _ = bare_type(field.type)
        if type_ is int:
            assert ROWS[key].values.startswith("whole number"), key
