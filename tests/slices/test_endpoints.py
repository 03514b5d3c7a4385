"""Address families, ports and existing slices. Pods to endpoints are in `tests.vectors.test_slices_packing`."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from tests.builders.structs import IPV4, IPV6, a_pod, a_service, a_slice, an_endpoint, hints

from zoneward.kube.objects import EndpointPort
from zoneward.slices.endpoints import EndpointBuilder, ServiceEndpoints, address_types, port_key, without_hints


@pytest.mark.parametrize(
    ("ips", "expected"),
    [
        ([], IPV4),
        ([("10.0.0.1",)], IPV4),
        ([("fd00::1",)], IPV6),
        ([("10.0.0.1", "fd00::1")], IPV4),
        ([("fd00::1", "10.0.0.1")], IPV6),
        ([("fd00::1",), ("10.0.0.1",)], IPV4),
    ],
)
@pytest.mark.parametrize("cluster_ip", [None, ""])
def test_a_service_as_people_write_it_has_the_first_family_of_its_pods(
    cluster_ip: str | None, ips: list[tuple[str, ...]], expected: Sequence[str]
) -> None:
    """It has no cluster IP yet; an API server would give it one of the cluster's first family."""
    pods = [a_pod(f"p{index}", ips=addresses) for index, addresses in enumerate(ips)]
    assert address_types(a_service(families=None, cluster_ip=cluster_ip), pods) == tuple(expected)


def test_every_field_of_a_port_tells_groups_apart() -> None:
    """An absent protocol is TCP, and an absent name the empty one."""
    http = EndpointPort(name="http", protocol="TCP", port=80)
    for field, value in {"name": "web", "protocol": "UDP", "port": 81, "app_protocol": "kubernetes.io/ws"}.items():
        assert port_key([replace(http, **{field: value})]) != port_key([http])
    assert port_key([EndpointPort(port=80)]) == port_key([EndpointPort(name="", protocol="TCP", port=80)])


def test_endpoints_of_slices_are_added_once_without_hints_and_with_their_ports() -> None:
    one, ports = an_endpoint("10.0.0.1", hinted=hints("a"), pod="p"), (EndpointPort(name="http", port=9090),)
    builder = EndpointBuilder(a_service(), node_zones={})
    service_endpoints = ServiceEndpoints("IPv4", builder, merge_addresses=True, count_without_ports=True)
    service_endpoints.add_from_slices(
        [
            a_slice("s1", one),
            a_slice("s2", one, an_endpoint("10.0.0.2")),
            a_slice("s3", an_endpoint("10.0.0.3"), ports=ports),
        ],
        lambda _: None,
    )
    expected = [without_hints(one), an_endpoint("10.0.0.2"), an_endpoint("10.0.0.3")]
    assert [member.endpoint for member in service_endpoints.by_identity.values()] == expected
    assert [(group.size, group.ports == ports) for group in service_endpoints.port_groups.values()] == [
        (2, False),
        (1, True),
    ]
