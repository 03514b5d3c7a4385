"""Names of new slices: the same for the same slice, free, and short enough."""

import pytest
from msgspec.structs import replace
from tests.builders.structs import a_service

from zoneward.kube.formats import subdomain_problems
from zoneward.kube.objects import Service
from zoneward.slices.changes import slice_name
from zoneward.slices.ports import PortKey

PORTS: PortKey = (("http", 8080, "TCP", ""),)


def name(
    service: Service | None = None,
    *,
    family: str = "IPv4",
    ports: PortKey = PORTS,
    taken: tuple[str, ...] = (),
    group: str = "",
) -> str:
    return slice_name(service or a_service(), address_type=family, ports=ports, taken=(taken,), group=group)


def called(text: str) -> Service:
    service = a_service()
    return replace(service, metadata=replace(service.metadata, name=text))


def test_the_same_slice_has_the_same_name_wherever_it_is_made() -> None:
    """A repeated create meets the slice it made before."""
    assert name() == name() == "cart-7abea35745"


@pytest.mark.parametrize(
    "other",
    [
        name(a_service(uid="uid-of-another")),
        name(family="IPv6"),
        name(ports=()),
        name(ports=(("http", 9090, "TCP", ""),)),
        name(group="zone-a"),
        name(replace(a_service(), metadata=replace(a_service().metadata, namespace="other"))),
        name(taken=(name(),)),
    ],
    ids=["UID", "family", "no ports", "ports", "group", "namespace", "number"],
)
def test_all_that_tells_slices_apart_is_in_the_hash(other: str) -> None:
    assert other != name()


def test_a_taken_name_gives_way_to_the_next_free_one() -> None:
    names: list[str] = []
    for _ in range(5):
        names.append(name(taken=tuple(names)))
    assert len(set(names)) == 5
    assert name(taken=tuple(names[1:])) == names[0]


def test_a_long_name_is_cut_to_what_an_object_may_be_called() -> None:
    one, other = name(called("x" * 252 + "y")), name(called("x" * 253))
    assert len(one) == len(other) == 253
    assert one != other


@pytest.mark.parametrize("text", ["x", "cart", "x" * 63, "x" * 253, "x" * 241 + ".-." + "x" * 9])
def test_a_name_is_one_that_an_object_may_have(text: str) -> None:
    assert list(subdomain_problems(name(called(text)))) == []
