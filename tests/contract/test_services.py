"""Services and the addresses and ports that the server gives them."""

import ipaddress

import pytest
from tests.builders.objects import a_service, with_field
from tests.contract.api import MERGE_PATCH, Api, Object, collection_of, path_of

NODE_PORTS = range(30000, 32768)


def of_type(type_: str, *, namespace: str, name: str = "cart") -> Object:
    return with_field(a_service(name, namespace=namespace), "spec.type", type_)


def headless(*, namespace: str, name: str = "headless") -> Object:
    return with_field(a_service(name, namespace=namespace), "spec.clusterIP", "None")


def free_address(api: Api, namespace: str) -> str:
    """One that a service has just given back."""
    service = api.create(a_service("for-a-moment", namespace=namespace))
    api.delete(service)
    address: str = service["spec"]["clusterIP"]
    return address


def test_an_address_can_be_requested(api: Api, namespace: str) -> None:
    address = free_address(api, namespace)
    service = with_field(a_service("cart", namespace=namespace), "spec.clusterIP", address)
    created = api.create(service)
    assert (created["spec"]["clusterIP"], created["spec"]["clusterIPs"]) == (address, [address])


def test_an_address_that_somebody_has_is_refused(api: Api, namespace: str) -> None:
    address = api.create(a_service("cart", namespace=namespace))["spec"]["clusterIP"]
    other = with_field(a_service("other", namespace=namespace), "spec.clusterIP", address)
    answer = api.send("POST", collection_of(other), other)
    assert answer.refusal[:2] == (422, "Invalid")
    problem = f'Invalid value: ["{address}"]: failed to allocate IP {address}: provided IP is already allocated'
    assert answer.causes == [("spec.clusterIPs", problem)]


def test_an_address_out_of_range_is_refused(api: Api, namespace: str) -> None:
    service = with_field(a_service("cart", namespace=namespace), "spec.clusterIP", "192.0.2.1")
    answer = api.send("POST", collection_of(service), service)
    assert answer.refusal[:2] == (422, "Invalid")
    problem = "failed to allocate IP 192.0.2.1: the provided network does not match the current range"
    assert answer.causes == [("spec.clusterIPs", f'Invalid value: ["192.0.2.1"]: {problem}')]


def test_the_address_stays_through_changes(api: Api, namespace: str) -> None:
    created = api.create(a_service("cart", namespace=namespace))
    patched = api.patch(created, {"spec": {"ports": [{"port": 81}]}}, content_type=MERGE_PATCH)
    # Who replaces it without its address means to keep it.
    replaced = api.replace(a_service("cart", namespace=namespace))
    assert {each["spec"]["clusterIP"] for each in (created, patched, replaced)} == {created["spec"]["clusterIP"]}


def test_a_deleted_service_gives_its_address_back(api: Api, namespace: str) -> None:
    for _ in range(2):
        address = free_address(api, namespace)
        service = with_field(a_service("cart", namespace=namespace), "spec.clusterIP", address)
        assert api.create(service)["spec"]["clusterIP"] == address
        api.delete(service)


def test_a_dry_run_takes_no_address(api: Api, namespace: str) -> None:
    address = free_address(api, namespace)
    service = with_field(a_service("cart", namespace=namespace), "spec.clusterIP", address)
    for _ in range(2):
        answer = api.send("POST", collection_of(service), service, query={"dryRun": "All"})
        assert (answer.code, answer.object["spec"]["clusterIP"]) == (201, address)
    assert api.create(service)["spec"]["clusterIP"] == address


def test_a_headless_service_has_none(api: Api, namespace: str) -> None:
    spec = api.create(headless(namespace=namespace))["spec"]
    assert (spec["clusterIP"], spec["clusterIPs"], spec["type"]) == ("None", ["None"], "ClusterIP")


def test_a_headless_service_needs_no_ports(api: Api, namespace: str) -> None:
    service = headless(namespace=namespace)
    del service["spec"]["ports"]
    assert "ports" not in api.create(service)["spec"]


def test_a_headless_service_without_selector_takes_both_families(api: Api, namespace: str) -> None:
    spec = api.create(headless(namespace=namespace))["spec"]
    assert (spec["ipFamilies"], spec["ipFamilyPolicy"]) == (["IPv4", "IPv6"], "RequireDualStack")
    selecting = with_field(headless(namespace=namespace, name="selecting"), "spec.selector", {"app": "cart"})
    spec = api.create(selecting)["spec"]
    assert (spec["ipFamilies"], spec["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")


@pytest.fixture
def dual_stack(api: Api) -> None:
    """A sandbox and a control plane of these tests have two families; a server that was given need not."""
    service = with_field(a_service("cart"), "spec.ipFamilyPolicy", "RequireDualStack")
    answer = api.send("POST", collection_of(service), service, query={"dryRun": "All"})
    if answer.code != 201:
        problem = 'Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services'
        assert answer.causes == [("spec.ipFamilyPolicy", problem)]
        pytest.skip("the server has one family")


@pytest.mark.usefixtures("dual_stack")
@pytest.mark.parametrize("policy", ["PreferDualStack", "RequireDualStack"])
def test_a_service_can_have_an_address_of_each_family(api: Api, namespace: str, policy: str) -> None:
    service = with_field(a_service("cart", namespace=namespace), "spec.ipFamilyPolicy", policy)
    spec = api.create(service)["spec"]
    assert (spec["ipFamilies"], spec["ipFamilyPolicy"]) == (["IPv4", "IPv6"], policy)
    assert [ipaddress.ip_address(address).version for address in spec["clusterIPs"]] == [4, 6]
    assert spec["clusterIP"] == spec["clusterIPs"][0]


@pytest.mark.usefixtures("dual_stack")
def test_a_service_can_have_the_other_family_alone(api: Api, namespace: str) -> None:
    spec = api.create(with_field(a_service("cart", namespace=namespace), "spec.ipFamilies", ["IPv6"]))["spec"]
    assert (spec["ipFamilies"], spec["ipFamilyPolicy"]) == (["IPv6"], "SingleStack")
    assert [ipaddress.ip_address(address).version for address in spec["clusterIPs"]] == [6]


@pytest.mark.usefixtures("dual_stack")
def test_a_second_family_comes_and_goes(api: Api, namespace: str) -> None:
    service = api.create(a_service("cart", namespace=namespace))
    first = service["spec"]["clusterIP"]
    both = api.patch(service, {"spec": {"ipFamilyPolicy": "PreferDualStack"}}, content_type=MERGE_PATCH)["spec"]
    assert (both["ipFamilies"], both["clusterIPs"][0], len(both["clusterIPs"])) == (["IPv4", "IPv6"], first, 2)
    one = api.patch(service, {"spec": {"ipFamilyPolicy": "SingleStack"}}, content_type=MERGE_PATCH)["spec"]
    assert (one["ipFamilies"], one["clusterIPs"]) == (["IPv4"], [first])
    # Its address is free again.
    other = with_field(a_service("other", namespace=namespace), "spec.ipFamilies", ["IPv6"])
    second = both["clusterIPs"][1]
    assert api.create(with_field(other, "spec.clusterIP", second))["spec"]["clusterIP"] == second


@pytest.mark.usefixtures("dual_stack")
def test_the_first_family_cannot_change(api: Api, namespace: str) -> None:
    service = api.create(a_service("cart", namespace=namespace))
    answer = api.send("PATCH", path_of(service), {"spec": {"ipFamilies": ["IPv6"]}}, content_type=MERGE_PATCH)
    assert answer.refusal[:2] == (422, "Invalid")


# --- types ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("type_", ["NodePort", "LoadBalancer"])
def test_each_port_gets_a_node_port(api: Api, namespace: str, type_: str) -> None:
    service = with_field(of_type(type_, namespace=namespace), "spec.ports[1]", {"name": "more", "port": 81})
    ports = [port["nodePort"] for port in api.create(service)["spec"]["ports"]]
    assert len(set(ports)) == 2
    assert all(port in NODE_PORTS for port in ports)


def test_a_node_port_can_be_requested_once(api: Api, namespace: str) -> None:
    first = api.create(of_type("NodePort", namespace=namespace))
    port = first["spec"]["ports"][0]["nodePort"]
    second = with_field(of_type("NodePort", namespace=namespace, name="second"), "spec.ports[0].nodePort", port)
    answer = api.send("POST", collection_of(second), second)
    assert answer.refusal[:2] == (422, "Invalid")
    assert answer.causes == [("spec.ports[0].nodePort", f"Invalid value: {port}: provided port is already allocated")]
    api.delete(first)
    assert api.create(second)["spec"]["ports"][0]["nodePort"] == port


def test_a_node_port_out_of_range_is_refused(api: Api, namespace: str) -> None:
    service = with_field(of_type("NodePort", namespace=namespace), "spec.ports[0].nodePort", 80)
    answer = api.send("POST", collection_of(service), service)
    problem = "Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767"
    assert answer.causes == [("spec.ports[0].nodePort", problem)]


def test_a_refused_service_takes_nothing(api: Api, namespace: str) -> None:
    address = free_address(api, namespace)
    service = with_field(of_type("NodePort", namespace=namespace), "spec.clusterIP", address)
    answer = api.send("POST", collection_of(service), with_field(service, "spec.ports[0].nodePort", 80))
    assert answer.code == 422
    del service["spec"]["ports"][0]["nodePort"]
    assert api.create(service)["spec"]["clusterIP"] == address


def test_node_ports_stay_where_a_type_keeps_them(api: Api, namespace: str) -> None:
    service = api.create(of_type("NodePort", namespace=namespace))
    port = service["spec"]["ports"][0]["nodePort"]
    balanced = api.patch(service, {"spec": {"type": "LoadBalancer"}}, content_type=MERGE_PATCH)
    assert balanced["spec"]["ports"][0]["nodePort"] == port
    # Who replaces it without its node port means to keep it.
    replaced = api.replace(of_type("NodePort", namespace=namespace))
    assert replaced["spec"]["ports"][0]["nodePort"] == port


def test_a_type_without_node_ports_gives_them_back(api: Api, namespace: str) -> None:
    service = api.create(of_type("NodePort", namespace=namespace))
    port = service["spec"]["ports"][0]["nodePort"]
    inside = api.patch(service, {"spec": {"type": "ClusterIP"}}, content_type=MERGE_PATCH)["spec"]
    assert "nodePort" not in inside["ports"][0]
    assert "externalTrafficPolicy" not in inside
    second = with_field(of_type("NodePort", namespace=namespace, name="second"), "spec.ports[0].nodePort", port)
    assert api.create(second)["spec"]["ports"][0]["nodePort"] == port


def test_a_service_elsewhere_has_no_address(api: Api, namespace: str) -> None:
    service = with_field(of_type("ExternalName", namespace=namespace), "spec.externalName", "cart.example.com")
    created = api.create(service)["spec"]
    assert created == {
        "ports": [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": "http"}],
        "type": "ExternalName",
        "sessionAffinity": "None",
        "externalName": "cart.example.com",
    }


def test_a_service_that_goes_elsewhere_gives_its_address_back(api: Api, namespace: str) -> None:
    service = api.create(a_service("cart", namespace=namespace))
    away = api.patch(
        service, {"spec": {"type": "ExternalName", "externalName": "cart.example.com"}}, content_type=MERGE_PATCH
    )
    assert not {"clusterIP", "clusterIPs", "ipFamilies"} & away["spec"].keys()
    other = with_field(a_service("other", namespace=namespace), "spec.clusterIP", service["spec"]["clusterIP"])
    assert api.create(other)["spec"]["clusterIP"] == service["spec"]["clusterIP"]


def test_traffic_that_stays_on_a_node_is_checked_by_balancers(api: Api, namespace: str) -> None:
    service = with_field(of_type("LoadBalancer", namespace=namespace), "spec.externalTrafficPolicy", "Local")
    assert api.create(service)["spec"]["healthCheckNodePort"] in NODE_PORTS
    cluster = api.patch(service, {"spec": {"externalTrafficPolicy": "Cluster"}}, content_type=MERGE_PATCH)
    assert "healthCheckNodePort" not in cluster["spec"]


# --- the rest ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["PreferClose", "PreferSameZone", "PreferSameNode"])
def test_traffic_can_be_distributed(api: Api, namespace: str, value: str) -> None:
    service = api.create(a_service("cart", namespace=namespace, distribution=value))
    assert service["spec"]["trafficDistribution"] == value
    patched = api.patch(service, {"spec": {"trafficDistribution": None}}, content_type=MERGE_PATCH)
    assert "trafficDistribution" not in patched["spec"]
