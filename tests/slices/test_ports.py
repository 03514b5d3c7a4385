"""Ports of Pods: targets by number and by name, and what makes two lists of ports the same."""

import pytest
from msgspec.structs import replace
from tests.builders.structs import a_service

from zoneward.kube.objects import EndpointPort, ServicePort
from zoneward.slices.ports import has_named_targets, port_key


def test_targets_are_named_where_one_is_text() -> None:
    assert not has_named_targets(a_service())
    assert not has_named_targets(replace(a_service(), spec=replace(a_service().spec, ports=None)))
    assert has_named_targets(
        a_service(
            ports=[ServicePort(name="a", port=1, target_port=1), ServicePort(name="b", port=2, target_port="web")]
        )
    )


def test_the_order_of_ports_does_not_matter_and_null_is_empty() -> None:
    http, dns = EndpointPort(name="http", protocol="TCP", port=80), EndpointPort(name="dns", protocol="UDP", port=53)
    assert port_key((http, dns)) == port_key((dns, http))
    assert port_key(None) == port_key(()) == ()


@pytest.mark.parametrize(
    "other",
    [
        EndpointPort(name="web", protocol="TCP", port=80),
        EndpointPort(name="http", protocol="UDP", port=80),
        EndpointPort(name="http", protocol="TCP", port=81),
        EndpointPort(name="http", protocol="TCP", port=80, app_protocol="kubernetes.io/ws"),
    ],
    ids=["name", "protocol", "number", "application protocol"],
)
def test_every_field_of_a_port_tells_groups_apart(other: EndpointPort) -> None:
    assert port_key([other]) != port_key([EndpointPort(name="http", protocol="TCP", port=80)])


def test_an_absent_protocol_is_tcp_and_an_absent_name_the_empty_one() -> None:
    assert port_key([EndpointPort(port=80)]) == port_key([EndpointPort(name="", protocol="TCP", port=80)])
