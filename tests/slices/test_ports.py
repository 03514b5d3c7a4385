"""Ports of Pods: targets by number and by name, and what makes two lists of ports the same."""

import pytest
from msgspec.structs import replace
from tests.builders.structs import a_pod, a_service

from zoneward.kube.objects import Container, ContainerPort, EndpointPort, Pod, PodSpec, ServicePort
from zoneward.slices.ports import has_named_targets, port_key, ports_of, target_of

WEB = ContainerPort(name="web", container_port=8080)
DNS = ContainerPort(name="dns", container_port=53, protocol="UDP")
POD = a_pod("p", ports=[WEB, DNS])


@pytest.mark.parametrize(
    ("target", "number"),
    [(9090, 9090), (None, 80), (0, 80), ("", 80), ("web", 8080), ("other", None), ("dns", None)],
)
def test_a_target_is_a_number_or_a_name_on_the_pod_or_the_port_itself(
    target: int | str | None, number: int | None
) -> None:
    """A name counts with its protocol: ``dns`` is UDP there and TCP here."""
    assert target_of(ServicePort(name="http", port=80, target_port=target), POD) == number


def test_a_name_is_looked_up_with_its_protocol() -> None:
    assert target_of(ServicePort(port=53, protocol="UDP", target_port="dns"), POD) == 53


def with_containers(pod: Pod, *, init: tuple[Container, ...], containers: tuple[Container, ...]) -> Pod:
    return replace(pod, spec=replace(pod.spec, init_containers=init, containers=containers))


def serving(number: int, *, restart: str | None = None) -> Container:
    return Container(ports=(ContainerPort(name="web", container_port=number),), restart_policy=restart)


def test_containers_are_searched_before_sidecars_and_other_init_containers_never() -> None:
    port = ServicePort(port=80, target_port="web")
    sidecar, init = serving(1, restart="Always"), serving(2)
    assert target_of(port, with_containers(POD, init=(sidecar,), containers=(serving(3), serving(4)))) == 3
    assert target_of(port, with_containers(POD, init=(init, sidecar), containers=(Container(),))) == 1
    assert target_of(port, with_containers(POD, init=(init,), containers=())) is None


def test_without_containers_or_a_pod_no_name_is_found() -> None:
    port = ServicePort(port=80, target_port="web")
    assert target_of(port, None) is None
    assert target_of(port, replace(POD, spec=PodSpec())) is None


def test_a_target_that_the_pod_lacks_drops_that_port_alone() -> None:
    service = a_service(
        ports=[
            ServicePort(name="http", port=80, target_port="web", app_protocol="kubernetes.io/h2c"),
            ServicePort(name="admin", port=81, target_port="admin"),
            ServicePort(name="dns", port=53, protocol="UDP", target_port="dns"),
        ]
    )
    assert ports_of(service, POD) == (
        EndpointPort(name="http", protocol="TCP", port=8080, app_protocol="kubernetes.io/h2c"),
        EndpointPort(name="dns", protocol="UDP", port=53),
    )


def test_a_service_without_ports_has_endpoints_without_ports() -> None:
    service = a_service(ports=[])
    assert ports_of(service, POD) == ()
    assert ports_of(replace(service, spec=replace(service.spec, ports=None)), POD) == ()


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
