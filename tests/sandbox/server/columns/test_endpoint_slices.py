"""The table of EndpointSlices says of each what a real server (1.36.3) said of it."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from zoneward.sandbox.server.columns.endpoint_slices import COLUMNS, cells

Object = dict[str, Any]

NOW = datetime(2026, 11, 21, 17, 54, 42, tzinfo=UTC)


def endpoint_slice(ports: object, endpoints: object) -> Object:
    metadata = {"name": "e", "creationTimestamp": "2026-11-21T17:54:42Z"}
    return {"metadata": metadata, "addressType": "IPv4", "ports": ports, "endpoints": endpoints}


def numbered(*numbers: int | None) -> list[Object]:
    return [{"name": f"p{index}"} | ({"port": port} if port else {}) for index, port in enumerate(numbers)]


def addressed(*addresses: Sequence[int]) -> list[Object]:
    return [{"addresses": [f"10.0.0.{each}" for each in some]} for some in addresses]


@pytest.mark.parametrize(
    ("ports", "expected"),
    [
        ([], "<unset>"),
        (None, "<unset>"),
        (numbered(80), "80"),
        (numbered(80, 81, 82), "80,81,82"),
        (numbered(80, 81, 82, 83), "80,81,82 + 1 more..."),
        (numbered(80, 81, 82, 83, 84, 85), "80,81,82 + 3 more..."),
        (numbered(80, None, 82), "80,p1,82"),
        (numbered(80, None, None, 81, 82), "80,p1,p2 + 2 more..."),
        (numbered(None, None, None, None), "p0,p1,p2 + 1 more..."),
        ([{"name": ""}], "<unset>"),
        ([{"name": "x"}, {"name": "y", "port": None}], "x,y"),
    ],
)
def test_ports_are_numbers_or_names(ports: object, expected: str) -> None:
    assert cells(endpoint_slice(ports, addressed([1])), NOW) == ["e", "IPv4", expected, "10.0.0.1", "0s"]


@pytest.mark.parametrize(
    ("endpoints", "expected"),
    [
        ([], "<unset>"),
        (None, "<unset>"),
        (addressed([1]), "10.0.0.1"),
        (addressed([1], [2], [3]), "10.0.0.1,10.0.0.2,10.0.0.3"),
        (addressed([1], [2], [3], [4]), "10.0.0.1,10.0.0.2,10.0.0.3 + 1 more..."),
        (addressed([1, 11], [2, 22]), "10.0.0.1,10.0.0.11,10.0.0.2 + 1 more..."),
    ],
)
def test_addresses_are_counted_not_endpoints(endpoints: object, expected: str) -> None:
    assert cells(endpoint_slice(numbered(80), endpoints), NOW) == ["e", "IPv4", "80", expected, "0s"]


def test_there_is_a_cell_for_each_column() -> None:
    assert [column.name for column in COLUMNS] == ["Name", "AddressType", "Ports", "Endpoints", "Age"]
    assert not any(column.priority for column in COLUMNS)
