"""``validation.json`` once more, asked over HTTP: what the sandbox accepts, drops and counts, and with which gates."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import fields
from itertools import product
from typing import Any, Final

import pytest
from tests.builders.objects import a_service, a_slice
from tests.contract.api import Answer, path_of
from tests.sandbox.server.running_sandbox import RunningSandbox, run_sandbox
from tests.vectors import test_validation
from tests.vectors.cases import Case, load

from zoneward.sandbox.server.catalog import GATES, parse_gates
from zoneward.sandbox.server.kinds import ServerGates
from zoneward.sandbox.server.persistence import new_registry

Object = dict[str, Any]
Sandboxes = Callable[[ServerGates], RunningSandbox]
"""One for each set of gates."""

SLICES: Final = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
SERVICES: Final = "/api/v1/namespaces/default/services"
CURRENT: Final = ServerGates()


def slice_hints(case: Case, sandboxes: Sandboxes) -> None:
    zones, nodes = case["input"].get("forZones", []), case["input"].get("forNodes", [])
    answer = sent(sandboxes(CURRENT), SLICES, a_hinted_slice({"for_zones": zones, "for_nodes": nodes}))
    assert wrong(answer) == [(error["type"], error["field"]) for error in case["expected"]["errors"]]
    assert len(wrong(answer)) == case["expected"]["error_count"]


def slice_shape(case: Case, sandboxes: Sandboxes) -> None:
    answer = sent(sandboxes(CURRENT), SLICES, shaped(**case["input"]))
    assert len(wrong(answer)) == case["expected"]["error_count"]


def service_traffic_distribution(case: Case, sandboxes: Sandboxes) -> None:
    service = a_service("cart", distribution=case["input"]["value"])
    answer = sent(sandboxes(of(case["input"]["switches"])), SERVICES, service)
    error = case["expected"]["error"]
    assert wrong(answer) == ([] if error is None else [(error["type"], error["field"])])
    assert (answer.code == 201) == case["expected"]["valid"]
    if case["expected"]["valid"]:
        assert answer.object["spec"].get("trafficDistribution") == case["input"]["value"]


def service_traffic_distribution_scope(case: Case, sandboxes: Sandboxes) -> None:
    given, accepted = case["input"], []
    for type_, is_headless in product(given["service_types"], given["headless"]):
        service = a_service("cart", distribution=given["value"])
        service["spec"] |= {"type": type_} | ({"clusterIP": "None"} if is_headless else {})
        service["spec"] |= {"externalName": "cart.example"} if type_ == "ExternalName" else {}
        answer = sent(sandboxes(CURRENT), SERVICES, service)
        assert not [field for _, field in wrong(answer) if "trafficDistribution" in field]
        accepted += [type_] if answer.code == 201 else []
    assert set(accepted) == set(given["service_types"])
    assert case["expected"] == {"valid_for_all": True}


def service_update_with_switch_off(case: Case, sandboxes: Sandboxes) -> None:
    given = case["input"]
    sandbox = sandboxes(ServerGates(service_traffic_distribution=given["switch_ServiceTrafficDistribution"]))
    assert given["update"] == "selector only"
    stored = restored(sandbox, "services", a_service("cart", distribution=given["stored"]))
    stored["spec"]["selector"] = {"app": "cart"}
    new = sandbox.api.replace(stored)
    assert new["spec"]["selector"] == {"app": "cart"}
    assert (new["spec"].get("trafficDistribution") == given["stored"]) == case["expected"]["field_kept"]
    assert (
        "trafficDistribution"
        not in sent(sandbox, SERVICES, a_service("new", distribution="PreferClose")).object["spec"]
    )


def limits(case: Case, sandboxes: Sandboxes) -> None:
    sandbox, expected = sandboxes(CURRENT), case["expected"]
    shapes: dict[str, Callable[[int], Object]] = {
        "max_endpoints_per_slice": lambda count: shaped(endpoints=count),
        "max_addresses_per_endpoint": lambda count: shaped(addresses=count),
        "max_ports_per_slice": lambda count: shaped(ports=count),
        "max_zone_hints": lambda count: a_hinted_slice({"for_zones": [f"zone-{index}" for index in range(count)]}),
    }
    for limit, shape in shapes.items():
        assert not wrong(sent(sandbox, SLICES, shape(expected[limit]))), limit
        (error,) = wrong(sent(sandbox, SLICES, shape(expected[limit] + 1)))
        assert error[0] == "FieldValueTooMany", limit
    types = {"IPv4": "10.0.0.1", "IPv6": "fd00::1", "FQDN": "cart.example"}
    assert list(types) == expected["address_types"]
    for type_, address in types.items():
        one = a_slice("cart-1", service="cart", addresses=[address]) | {"addressType": type_}
        assert not wrong(sent(sandbox, SLICES, one))
    for protocol in expected["port_protocols"]:
        ports = [{"name": "http", "port": 80, "protocol": protocol}]
        assert not wrong(sent(sandbox, SLICES, shaped() | {"ports": ports}))
    unknown = shaped() | {"addressType": "IPv5", "ports": [{"name": "http", "protocol": "HTTP"}], "endpoints": []}
    assert [field for _, field in wrong(sent(sandbox, SLICES, unknown))] == ["addressType", "ports[0].protocol"]
    stored = restored(sandbox, "endpointslices.discovery.k8s.io", shaped(endpoints=0))
    answer = sandbox.api.send("PUT", path_of(stored), stored | {"addressType": "IPv6"})
    assert ([field for _, field in wrong(answer)] == ["addressType"]) == expected["address_type_immutable"]


def drop_disabled_fields(case: Case, sandboxes: Sandboxes) -> None:
    given, sandbox = case["input"], sandboxes(of(case["input"]["switches"]))
    new = a_hinted_slice(given["new"])
    if given["operation"] == "create":
        stored = sent(sandbox, SLICES, new).object
    else:
        old = restored(sandbox, "endpointslices.discovery.k8s.io", a_hinted_slice(given["old"]))
        stored = sandbox.api.replace(old | {"endpoints": new["endpoints"]})
    hints = stored["endpoints"][0].get("hints")
    decoded = None if hints is None else {"for_zones": names(hints, "forZones"), "for_nodes": names(hints, "forNodes")}
    assert decoded == case["expected"]["stored"]


def generation(case: Case, sandboxes: Sandboxes) -> None:
    given, sandbox = case["input"], sandboxes(CURRENT)
    old = shaped()
    old["metadata"]["generation"] = given["old_generation"]
    new = restored(sandbox, "endpointslices.discovery.k8s.io", old)
    match given["change"]:
        case "endpoints":
            new["endpoints"][0]["addresses"] = ["10.0.0.9"]
        case "labels" | "annotations" as field:
            new["metadata"][field] = {"zoneward.example/changed": "yes"} | new["metadata"].get(field, {})
        case "hints":
            new["endpoints"][0]["hints"] = {"forZones": [{"name": "zone-a"}]}
        case unchanged:
            assert unchanged == "none"
    assert sandbox.api.replace(new)["metadata"]["generation"] == case["expected"]["new_generation"]


def feature_switch_stages(case: Case, sandboxes: Sandboxes) -> None:
    served = sandboxes(CURRENT).api.get("/version")
    now = (int(served["major"]), int(served["minor"]))
    assert {GATES[name] for name in case["expected"]} == {field.name for field in fields(ServerGates)}
    for name, stages in case["expected"].items():
        since = stages.get("beta_on") or stages.get("on_by_default") or stages["ga"]
        assert getattr(CURRENT, GATES[name]) == (now >= tuple(map(int, since.split("."))))


RUN: Final[Mapping[str, Callable[[Case, Sandboxes], None]]] = {
    function.__name__: function
    for function in (
        *(slice_hints, slice_shape, service_traffic_distribution, service_traffic_distribution_scope),
        *(service_update_with_switch_off, limits, drop_disabled_fields, generation, feature_switch_stages),
    )
}
CONTROLLER: Final = "what a controller or a proxy makes of accepted objects: test_validation runs it"
NOT_RUN: Final[Mapping[str, str]] = {
    **{f"val-annot-{index:02}": CONTROLLER for index in range(1, 22)},
    **{f"val-prec-{index:02}": CONTROLLER for index in range(1, 10)},
    "val-limits-02": CONTROLLER,
    "val-shape-09": "over HTTP the namespace is that of the path: tests/kube/test_validation.py has the errors",
    "val-shape-10": "the sandbox does not validate deprecated topology, a remnant of v1beta1",
}
CASES: Final = load("validation.json")


def test_every_case_is_run_here_or_cannot_be() -> None:
    assert {case["id"] for case in CASES if case["kind"] not in RUN} <= NOT_RUN.keys() <= {case["id"] for case in CASES}
    assert {case["kind"] for case in CASES if case["id"] not in NOT_RUN} == RUN.keys()
    assert test_validation.LEFT_OUT.keys() & NOT_RUN.keys() == {"val-shape-09", "val-shape-10"}


@pytest.fixture(scope="module")
def sandboxes() -> Iterator[Sandboxes]:
    with ExitStack() as stack:
        running: dict[ServerGates, RunningSandbox] = {}

        def sandbox(gates: ServerGates) -> RunningSandbox:
            if gates not in running:
                running[gates] = stack.enter_context(run_sandbox(new_registry(gates=gates)))
            return running[gates]

        yield sandbox


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES if case["id"] not in NOT_RUN])
def test_the_sandbox_is_as_upstream(case: Case, sandboxes: Sandboxes) -> None:
    RUN[case["kind"]](case, sandboxes)


def sent(sandbox: RunningSandbox, path: str, document: Object) -> Answer:
    answer = sandbox.api.send("POST", path, document)
    assert answer.code in (201, 422), answer.object
    if answer.code == 201:
        sandbox.api.request("DELETE", f"{path}/{document['metadata']['name']}")
    return answer


def restored(sandbox: RunningSandbox, resource: str, document: Object) -> Object:
    """As if it had been stored before a gate was switched off; in place of the last one."""
    document = document | {"metadata": document["metadata"] | {"name": "stored"}}
    sandbox.inside(lambda registry: registry.restore(registry.kinds[resource], document))
    return sandbox.api.read(document)


def wrong(answer: Answer) -> list[tuple[str, str]]:
    return [(cause["reason"], cause["field"]) for cause in answer.object.get("details", {}).get("causes", ())]


def of(switches: Mapping[str, bool]) -> ServerGates:
    return parse_gates(f"{name}={str(is_on).lower()}" for name, is_on in switches.items())


def names(hints: Object, field: str) -> list[str]:
    return [hint["name"] for hint in hints.get(field, ())]


def a_hinted_slice(hints: Case | None) -> Object:
    slice_ = shaped()
    if hints is not None:
        by_field = {
            "forZones": [{"name": name} for name in hints.get("for_zones", ())],
            "forNodes": [{"name": name} for name in hints.get("for_nodes", ())],
        }
        slice_["endpoints"][0]["hints"] = {field: listed for field, listed in by_field.items() if listed}
    return slice_


def shaped(*, endpoints: int = 1, addresses: int = 1, ports: int = 1, port_names: list[str] | None = None) -> Object:
    """The EndpointSlice that has this shape, and is good otherwise."""
    slice_ = a_slice("cart-1", service="cart", addresses=[])
    listed = [f"10.1.2.{index % 255}" for index in range(addresses)]
    slice_["endpoints"] = [{"addresses": listed} for _ in range(endpoints)]
    names = [f"http-{index}" for index in range(ports)] if port_names is None else port_names
    slice_["ports"] = [{"name": name, "protocol": "TCP"} for name in names]
    return slice_
