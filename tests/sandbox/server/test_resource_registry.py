"""Writes are done whole or not at all, and what is taken for them is given back."""

import random
from dataclasses import replace
from typing import Any

import pytest

from zoneward.sandbox.server.persistence import new_registry
from zoneward.sandbox.server.resource_registry import DeleteOptions, Write
from zoneward.sandbox.server.schema import decode
from zoneward.sandbox.server.service_kind import ServiceKind
from zoneward.sandbox.server.status_errors import StatusError

Object = dict[str, Any]

PORTS = range(30086, 30098)
ADDRESSES = tuple(f"10.96.1.{index}" for index in range(1, 13))
"""The first that are allocated: writes come into each other's way."""


class Services:
    def __init__(self) -> None:
        self.registry = new_registry(chance=random.Random(1))
        self.kind = self.registry.kinds["services"]

    def stored(self) -> list[Object]:
        return [record.object() for _, record in self.registry.store.records(self.kind)]

    def create(self, spec: Object, name: str = "cart", *, is_dry_run: bool = False) -> Object:
        service = decoded({"metadata": {"name": name}, "spec": spec}, self.kind)
        return self.registry.create(self.kind, "default", service, is_dry_run=is_dry_run).object

    def restore(self, name: str, address: str) -> Object:
        spec = {"clusterIP": address, "clusterIPs": [address], "ports": [{"port": 80}]}
        return self.registry.restore(self.kind, {"metadata": {"name": name}, "spec": spec})

    def taken(self) -> tuple[set[str], set[int]]:
        assert isinstance(self.kind, ServiceKind)
        ports = {value for value in self.kind._taken if isinstance(value, int)}
        return {str(value) for value in self.kind._taken - ports}, ports

    def held(self) -> tuple[set[str], set[int]]:
        """By all that is stored."""
        specs = [service["spec"] for service in self.stored()]
        addresses = {ip for spec in specs for ip in spec.get("clusterIPs") or () if ip != "None"}
        ports = {port["nodePort"] for spec in specs for port in spec.get("ports") or () if port.get("nodePort")}
        return addresses, ports | {spec["healthCheckNodePort"] for spec in specs if spec.get("healthCheckNodePort")}


def a_spec(chance: random.Random) -> Object:
    """Of any type, asking for what may be somebody else's, and not always good."""
    type_ = chance.choice(["ClusterIP", "ClusterIP", "NodePort", "NodePort", "LoadBalancer", "ExternalName"])
    ports = [{"name": f"p{index}", "port": 80 + index} for index in range(chance.randint(0, 2))]
    for port in ports:
        if type_ in ("NodePort", "LoadBalancer") and chance.random() < 0.3:
            port["nodePort"] = chance.choice([*PORTS, 1])
    spec: Object = {"type": type_, "ports": ports}
    if chance.random() < 0.3:
        spec["clusterIP"] = chance.choice(["None", "10.0.0.1", *ADDRESSES])
    if chance.random() < 0.3:
        spec["ipFamilyPolicy"] = chance.choice(["SingleStack", "PreferDualStack", "RequireDualStack"])
    if type_ == "LoadBalancer" and chance.random() < 0.5:
        spec["externalTrafficPolicy"] = "Local"
    if type_ == "ExternalName" and chance.random() < 0.8:
        spec["externalName"] = "cart.example"
    if chance.random() < 0.2:
        spec["sessionAffinity"] = "Wrong"
    return spec


def one_write(services: Services, chance: random.Random) -> None:
    registry, kind, name = services.registry, services.kind, f"s{chance.randrange(6)}"
    write, spec = Write(is_dry_run=chance.random() < 0.2), a_spec(chance)
    match chance.choice(["create", "create", "update", "update", "patch", "status", "finalizer", "delete"]):
        case "create":
            services.create(spec, name, is_dry_run=write.is_dry_run)
        case "update":
            registry.update(kind, "default", name, lambda old: decoded(old | {"spec": spec}, kind), write)
        case "patch":
            merged = {"ports": spec["ports"], "type": a_spec(chance)["type"]}
            patch = replace(write, is_patch=True)
            registry.update(kind, "default", name, lambda old: old | {"spec": old["spec"] | merged}, patch)
        case "status":
            through = replace(write, subresource="status")
            registry.update(kind, "default", name, lambda old: decoded(old | {"spec": spec}, kind), through)
        case "finalizer":
            held = {"finalizers": [] if chance.random() < 0.5 else ["zoneward.example/held"]}
            registry.update(kind, "default", name, lambda old: old | {"metadata": old["metadata"] | held}, write)
        case "delete":
            registry.delete(kind, "default", name, DeleteOptions(dry_run=["All"] if write.is_dry_run else None))


def decoded(obj: Object, kind: Any) -> Object:
    return decode(obj, kind, validation="Ignore")[0]


@pytest.mark.parametrize("seed", range(6))
def test_allocated_values_are_those_of_the_stored_services(seed: int) -> None:
    chance, services = random.Random(seed), Services()
    done = 0
    for _ in range(120):
        before = services.registry.store.version
        try:
            one_write(services, chance)
            done += 1
        except StatusError:
            assert services.registry.store.version == before
        assert services.taken() == services.held()
    assert 20 < done < 110


def test_allocated_values_are_released_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_given: object) -> Any:
        raise LookupError

    services = Services()
    version, taken = services.registry.store.version, services.taken()
    with pytest.raises(LookupError):
        services.registry.update(services.kind, "default", "kubernetes", fails, Write())
    monkeypatch.setattr(ServiceKind, "validate_create", fails)
    with pytest.raises(LookupError):
        services.create({"type": "NodePort", "ports": [{"port": 80}]})
    assert (services.registry.store.version, services.taken()) == (version, taken)


def test_service_from_a_file_with_an_allocated_address_is_refused() -> None:
    services = Services()
    stored = services.restore("first", "10.96.7.7")
    services.restore("second", "10.96.7.8")
    with pytest.raises(StatusError, match="provided IP is already allocated"):
        services.restore("second", "10.96.7.7")
    assert services.taken() == services.held() == ({"10.96.0.1", "10.96.7.7", "10.96.7.8"}, set())
    assert services.restore("first", "10.96.7.7")["spec"] == stored["spec"]


def test_service_from_a_file_keeps_an_address_and_port_outside_of_the_ranges() -> None:
    """EKS has cluster IPs in 172.20.0.0/16, and a server may have another range of node ports."""
    services = Services()
    ports = [{"port": 80, "nodePort": 20080}]
    spec = {"type": "NodePort", "clusterIP": "172.20.0.10", "clusterIPs": ["172.20.0.10"], "ports": ports}
    services.registry.restore(services.kind, {"metadata": {"name": "cart"}, "spec": spec})
    labels = {"labels": {"a": "b"}}
    registry, kind = services.registry, services.kind
    new = registry.update(kind, "default", "cart", lambda old: old | {"metadata": old["metadata"] | labels}, Write())
    assert (new.object["spec"]["clusterIP"], new.object["spec"]["ports"][0]["nodePort"]) == ("172.20.0.10", 20080)


def test_update_validates_only_changed_endpoints() -> None:
    """An older API server may have accepted the others."""
    registry = new_registry()
    kind = registry.kinds["endpointslices.discovery.k8s.io"]
    old = {"addresses": ["10.1.2.04"], "conditions": {}}
    registry.restore(kind, {"metadata": {"name": "cart-1"}, "addressType": "IPv4", "endpoints": [old]})

    def update(*endpoints: Object) -> None:
        registry.update(kind, "default", "cart-1", lambda obj: obj | {"endpoints": list(endpoints)}, Write())

    update({"addresses": ["10.1.2.5"], "conditions": {}}, old)
    with pytest.raises(StatusError, match=r"endpoints\[1\].addresses\[0\].*must not have leading 0s"):
        update({"addresses": ["10.1.2.5"], "conditions": {}}, old | {"zone": "a"})


def test_generated_names_are_free_ones() -> None:
    registry = new_registry(chance=random.Random(7))
    leases = registry.kinds["leases.coordination.k8s.io"]
    wanted = decoded({"metadata": {"generateName": "cart-"}}, leases)
    names = {registry.create(leases, "default", wanted).object["metadata"]["name"] for _ in range(50)}
    registry._chance = random.Random(7)  # the same names once more
    names |= {registry.create(leases, "default", wanted).object["metadata"]["name"] for _ in range(50)}
    assert len(names) == 100


def test_stored_objects_are_copied() -> None:
    registry = new_registry()
    leases = registry.kinds["leases.coordination.k8s.io"]
    asked: Object = {"metadata": {"name": "cart", "labels": {"app": "cart"}}, "spec": {"holderIdentity": "me"}}
    given = decoded(asked, leases)
    created = registry.create(leases, "default", given).object
    given["metadata"]["labels"]["app"] = created["spec"]["holderIdentity"] = "changed"
    stored = registry.get(leases, "default", "cart")
    assert (stored["metadata"]["labels"], stored["spec"]) == ({"app": "cart"}, {"holderIdentity": "me"})
