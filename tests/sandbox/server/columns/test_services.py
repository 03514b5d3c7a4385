"""The table of Services says of each what a real server (1.36.3) said of it."""

from datetime import UTC, datetime
from typing import Any

import pytest
from zoneward.sandbox.server.columns.services import COLUMNS, cells

Object = dict[str, Any]

NOW = datetime(2026, 11, 21, 17, 54, 42, tzinfo=UTC)
HTTP = {"name": "http", "port": 80, "protocol": "TCP"}
DNS = {"name": "dns", "port": 53, "protocol": "UDP"}
EXTERNAL = ["192.0.2.1", "192.0.2.0"]
INGRESS = [{"ip": "192.0.2.20"}, {"hostname": "lb.example.com"}, {"ip": "192.0.2.3"}, {"ip": "192.0.2.3"}]


def service(service_type: str, *addresses: str, ingress: object = None, **spec: object) -> Object:
    spec |= {"type": service_type} | ({"clusterIP": addresses[0], "clusterIPs": list(addresses)} if addresses else {})
    status = {"loadBalancer": {"ingress": ingress} if ingress else {}}
    return {"metadata": {"name": "s", "creationTimestamp": "2026-11-21T17:54:41Z"}, "spec": spec, "status": status}


@pytest.mark.parametrize(
    ("thing", "expected"),
    [
        (
            service("ClusterIP", "10.96.77.1", "2001:db8::1", ports=[HTTP, DNS], selector={"b": "2", "a": "1"}),
            ["ClusterIP", "10.96.77.1", "<none>", "80/TCP,53/UDP", "a=1,b=2"],
        ),
        (
            service("ClusterIP", "10.96.77.6", ports=[{"port": 80, "protocol": "SCTP"}], externalIPs=EXTERNAL),
            ["ClusterIP", "10.96.77.6", "192.0.2.1,192.0.2.0", "80/SCTP", "<none>"],
        ),
        (service("ClusterIP", "None", ports=[HTTP]), ["ClusterIP", "None", "<none>", "80/TCP", "<none>"]),
        (service("ClusterIP", "None", selector={"a": "1"}), ["ClusterIP", "None", "<none>", "<none>", "a=1"]),
        (
            service("NodePort", "10.96.77.2", ports=[HTTP | {"nodePort": 30977}, DNS | {"nodePort": 30978}]),
            ["NodePort", "10.96.77.2", "<none>", "80:30977/TCP,53:30978/UDP", "<none>"],
        ),
        (
            service("NodePort", "10.96.77.7", ports=[HTTP | {"nodePort": 30974}], externalIPs=["192.0.2.9"]),
            ["NodePort", "10.96.77.7", "192.0.2.9", "80:30974/TCP", "<none>"],
        ),
        (
            service("LoadBalancer", "10.96.77.3", ports=[HTTP | {"nodePort": 30976}]),
            ["LoadBalancer", "10.96.77.3", "<pending>", "80:30976/TCP", "<none>"],
        ),
        (
            service("LoadBalancer", "10.96.77.4", ports=[HTTP], ingress=INGRESS),
            ["LoadBalancer", "10.96.77.4", "192.0.2.20,192.0.2.3,lb.example.com", "80/TCP", "<none>"],
        ),
        (
            service("LoadBalancer", "10.96.77.5", ports=[HTTP], ingress=INGRESS[:1], externalIPs=EXTERNAL),
            ["LoadBalancer", "10.96.77.5", "192.0.2.20,192.0.2.1,192.0.2.0", "80/TCP", "<none>"],
        ),
        (
            service("LoadBalancer", "10.96.77.8", ports=[HTTP], externalIPs=EXTERNAL),
            ["LoadBalancer", "10.96.77.8", "192.0.2.1,192.0.2.0", "80/TCP", "<none>"],
        ),
        (
            service("ExternalName", externalName="example.com"),
            ["ExternalName", "<none>", "example.com", "<none>", "<none>"],
        ),
        (
            service("ExternalName", externalName="example.com", ports=[HTTP], externalIPs=EXTERNAL),
            ["ExternalName", "<none>", "example.com", "80/TCP", "<none>"],
        ),
        ({"metadata": {}}, ["", "<none>", "<unknown>", "<none>", "<none>"]),
    ],
)
def test_a_service_has_its_words(thing: Object, expected: list[str]) -> None:
    told = cells(thing, NOW)
    assert [*told[1:5], told[6]] == expected


def test_there_is_a_cell_for_each_column() -> None:
    names = ["Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "Selector"]
    assert [(column.name, column.priority) for column in COLUMNS] == [(name, n > 5) for n, name in enumerate(names)]
    told = cells(service("ClusterIP", "10.96.77.1"), NOW)
    assert (told[0], told[5], len(told)) == ("s", "1s", len(names))
