"""The status of Services, as a kube-apiserver v1.36.3 takes it."""

# ruff: noqa: E501 -- words of upstream stand whole, to be found

from copy import deepcopy
from typing import Any, Final

import pytest
from tests.sandbox.server.rules.service_desk import (
    CLUSTER_IP,
    NO_ADDRESS,
    SUBDOMAIN_RULE,
    InvalidError,
    Spec,
    load_balancer,
    single,
)

from zoneward.sandbox.server.kinds import Object

CONDITION: Final = {
    "type": "A",
    "status": "True",
    "reason": "R",
    "message": "m",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
EMPTY_CONDITION: Final = {"type": "", "status": "", "reason": "", "message": "", "lastTransitionTime": None}


def ingress(*each: Object) -> Object:
    return {"loadBalancer": {"ingress": list(each)}}


@pytest.mark.parametrize(
    ("spec", "given", "stored"),
    [
        (CLUSTER_IP, {}, {"loadBalancer": {}}),
        (CLUSTER_IP, {"loadBalancer": None, "conditions": []}, {"loadBalancer": {}}),
        (CLUSTER_IP, {"conditions": [CONDITION]}, {"loadBalancer": {}, "conditions": [CONDITION]}),
        (
            CLUSTER_IP,
            {"conditions": [{}, {"type": "a b", "status": "?"}]},
            {"loadBalancer": {}, "conditions": [EMPTY_CONDITION, EMPTY_CONDITION | {"type": "a b", "status": "?"}]},
        ),
        (load_balancer(), ingress({"ip": "1.2.3.4"}), ingress({"ip": "1.2.3.4", "ipMode": "VIP"})),
        (load_balancer(), ingress({"ip": "1.2.3.4", "ipMode": "Proxy"}), ingress({"ip": "1.2.3.4", "ipMode": "Proxy"})),
        (load_balancer(), ingress({"hostname": "a.b"}, {}), ingress({"hostname": "a.b"}, {})),
        (
            load_balancer(),
            ingress({"ip": "1.2.3.4", "ports": [{"port": 80}, {"error": ""}]}),
            ingress(
                {
                    "ip": "1.2.3.4",
                    "ipMode": "VIP",
                    "ports": [{"port": 80, "protocol": ""}, {"port": 0, "protocol": "", "error": ""}],
                }
            ),
        ),
    ],
)
def test_a_status_is_stored_as_upstream_stores_it(spec: Spec, given: Object, stored: Object) -> None:
    desk = single()
    old = desk.create(spec)
    new = desk.set_status(old, given)
    assert (new["status"], new["spec"]) == (stored, old["spec"])


@pytest.mark.parametrize(
    ("spec", "given", "told"),
    [
        (
            CLUSTER_IP,
            ingress({"ip": "foo"}),
            ["status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'"],
        ),
        (
            load_balancer(),
            ingress(
                {"ip": "1.2.3.4", "ipMode": "Foo"},
                {"hostname": "x", "ipMode": "Proxy"},
                {"hostname": "9.9.9.9", "ip": "x"},
                {"hostname": "fd00::1"},
                {"ip": "01.2.3.4"},
            ),
            [
                'status.loadBalancer.ingress[0].ipMode: Unsupported value: "Foo": supported values: "Proxy", "VIP"',
                "status.loadBalancer.ingress[1].ipMode: Forbidden: may not be specified when `ip` is not set",
                f'status.loadBalancer.ingress[2].ip: Invalid value: "x": {NO_ADDRESS}',
                'status.loadBalancer.ingress[2].hostname: Invalid value: "9.9.9.9": must be a DNS name, not an IP address',
                f'status.loadBalancer.ingress[3].hostname: Invalid value: "fd00::1": {SUBDOMAIN_RULE}',
                'status.loadBalancer.ingress[3].hostname: Invalid value: "fd00::1": must be a DNS name, not an IP address',
                'status.loadBalancer.ingress[4].ip: Invalid value: "01.2.3.4": must not have leading 0s',
            ],
        ),
    ],
)
def test_a_status_is_refused_in_upstreams_words(spec: Spec, given: Object, told: list[str]) -> None:
    desk = single()
    with pytest.raises(InvalidError) as found:
        desk.set_status(desk.create(spec), given)
    assert found.value.told == told


def test_the_load_balancers_status_goes_with_it_and_conditions_stay() -> None:
    desk = single()
    old = desk.set_status(desk.create(load_balancer()), ingress({"ip": "1.2.3.4"}) | {"conditions": [CONDITION]})
    assert desk.update(old, {"selector": {"a": "b"}})["status"] == old["status"]
    assert desk.update(old, {"type": "NodePort"})["status"] == {"loadBalancer": {}, "conditions": [CONDITION]}


def test_a_spec_is_written_without_its_status() -> None:
    desk = single()
    old = desk.set_status(desk.create(load_balancer()), ingress({"ip": "1.2.3.4"}))
    new: dict[str, Any] = deepcopy(old) | {"status": {}}
    desk.rules.default(new)
    desk.rules.prepare_update(new, old, None)  # type: ignore[arg-type]
    assert new["status"] == old["status"]


def test_services_have_no_generation() -> None:
    desk = single()
    old = desk.create(CLUSTER_IP)
    assert not desk.rules.has_generation
    assert not desk.rules.is_new_generation(desk.update(old, {"selector": {"a": "b"}}), old)
