"""Writes are done whole or not at all, and what is taken for them is given back."""

import random
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from zoneward.sandbox.server.catalog import kinds
from zoneward.sandbox.server.persistence import a_namespace, new_registry
from zoneward.sandbox.server.resource_registry import Deletion, Registry, Write
from zoneward.sandbox.server.schema import decode
from zoneward.sandbox.server.status_errors import StatusError
from zoneward.sandbox.server.strategies.service_allocation import ServiceAllocator
from zoneward.sandbox.server.strategies.service_strategy import ServiceStrategy
from zoneward.sandbox.server.versioned_store import VersionedStore

Object = dict[str, Any]

ME = Write()
NETWORKS = ("10.0.0.0/28", "fd00::/124")
PORTS = range(30000, 30012)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class SmallCluster:
    """With so few addresses and ports that writes come into each other's way."""

    def __init__(self) -> None:
        self.allocator = ServiceAllocator(NETWORKS, PORTS)
        strategy = ServiceStrategy(self.allocator)
        known = tuple(replace(kind, strategy=strategy) if kind.kind == "Service" else kind for kind in kinds())
        self.registry = Registry(VersionedStore(known), known, now=lambda: NOW)
        self.registry.restore(self.registry.kinds["namespaces"], a_namespace("default"))
        self.services = self.registry.kinds["services"]

    def stored(self) -> list[Object]:
        return [record.object() for _, record in self.registry.store.records(self.services)]

    def create(self, spec: Object, name: str = "cart", write: Write = ME) -> Object:
        thing = {"kind": "Service", "apiVersion": "v1", "metadata": {"name": name}, "spec": spec}
        return self.registry.create(self.services, "default", decode(thing, self.services)[0], write).object

    def taken(self) -> tuple[set[str], set[int]]:
        pools = self.allocator._ips.values()
        ips = {str(address) for pool in pools for address, owner in pool._owners.items() if owner}
        return ips, set(self.allocator._ports._owners)

    def held(self) -> tuple[set[str], set[int]]:
        """By all that is stored."""
        specs = [each["spec"] for each in self.stored()]
        addresses = {ip for spec in specs for ip in spec.get("clusterIPs") or () if ip != "None"}
        ports = {port["nodePort"] for spec in specs for port in spec.get("ports") or () if port.get("nodePort")}
        return addresses, ports | {spec["healthCheckNodePort"] for spec in specs if spec.get("healthCheckNodePort")}


def a_spec(chance: random.Random) -> Object:
    """Of any type, asking for what may be somebody else's, and not always good."""
    type_ = chance.choice(["ClusterIP", "ClusterIP", "NodePort", "NodePort", "LoadBalancer", "ExternalName"])
    ports = [{"name": f"p{number}", "port": 80 + number} for number in range(chance.randint(0, 2))]
    for port in ports:
        if type_ in ("NodePort", "LoadBalancer") and chance.random() < 0.3:
            port["nodePort"] = chance.choice([*PORTS, 1])
    spec: Object = {"type": type_, "ports": ports}
    if chance.random() < 0.3:
        spec["clusterIP"] = chance.choice(["None", *(f"10.0.0.{number}" for number in range(17))])
    if chance.random() < 0.3:
        spec["ipFamilyPolicy"] = chance.choice(["SingleStack", "PreferDualStack", "RequireDualStack"])
    if type_ == "LoadBalancer" and chance.random() < 0.5:
        spec["externalTrafficPolicy"] = "Local"
    if type_ == "ExternalName" and chance.random() < 0.8:
        spec["externalName"] = "cart.example"
    if chance.random() < 0.2:
        spec["sessionAffinity"] = "Wrong"
    return spec


def one_write(cluster: SmallCluster, chance: random.Random) -> None:
    registry, services, name = cluster.registry, cluster.services, f"s{chance.randrange(6)}"
    write = replace(ME, is_dry_run=chance.random() < 0.2)
    match chance.choice(["create", "create", "update", "update", "patch", "status", "finalizer", "delete"]):
        case "create":
            cluster.create(a_spec(chance), name, write)
        case "update":
            spec = a_spec(chance)
            registry.update(services, "default", name, lambda old: decoded(old | {"spec": spec}, services), write)
        case "patch":
            spec = {"ports": a_spec(chance)["ports"], "type": a_spec(chance)["type"]}
            merged = replace(write, is_patch=True)
            registry.update(services, "default", name, lambda old: old | {"spec": old["spec"] | spec}, merged)
        case "status":
            spec = a_spec(chance)
            through = replace(write, subresource="status")
            registry.update(services, "default", name, lambda old: decoded(old | {"spec": spec}, services), through)
        case "finalizer":
            held = [] if chance.random() < 0.5 else ["zoneward.example/held"]
            registry.update(services, "default", name, lambda old: with_metadata(old, finalizers=held), write)
        case "delete":
            registry.delete(services, "default", name, Deletion(is_dry_run=write.is_dry_run))


def decoded(thing: Object, kind: Any) -> Object:
    return decode(thing, kind, validation="Ignore")[0]


def with_metadata(thing: Object, **fields: object) -> Object:
    return thing | {"metadata": thing["metadata"] | fields}


@pytest.mark.parametrize("seed", range(6))
def test_what_is_taken_is_what_the_stored_services_have(seed: int) -> None:
    chance, cluster = random.Random(seed), SmallCluster()
    done = 0
    for _ in range(120):
        before = cluster.registry.store.version
        try:
            one_write(cluster, chance)
            done += 1
        except StatusError:
            assert cluster.registry.store.version == before
        assert cluster.taken() == cluster.held()
    assert 20 < done < 110


def test_a_change_that_fails_leaves_nothing_behind() -> None:
    cluster = SmallCluster()
    created = cluster.create({"ports": [{"port": 80}]})
    version, taken = cluster.registry.store.version, cluster.taken()

    def fails(_old: Object) -> Object:
        raise LookupError

    with pytest.raises(LookupError):
        cluster.registry.update(cluster.services, "default", "cart", fails, ME)
    assert (cluster.registry.store.version, cluster.taken(), cluster.stored()) == (version, taken, [created])


class Confused(ServiceStrategy):
    def validate_create(self, _new: Object) -> Any:
        raise LookupError

    validate_update = validate_create  # type: ignore[assignment]


def test_what_was_taken_is_given_back_by_rules_that_fail() -> None:
    cluster = SmallCluster()
    confused = replace(cluster.services, strategy=Confused(cluster.allocator))
    cluster.services = confused
    with pytest.raises(LookupError):
        cluster.create({"type": "NodePort", "ports": [{"port": 80}]})
    assert cluster.taken() == (set(), set())


def test_a_service_from_a_file_may_not_have_anothers_address() -> None:
    registry = new_registry()
    services = registry.kinds["services"]
    spec = {"clusterIP": "10.96.7.7", "clusterIPs": ["10.96.7.7"], "ports": [{"port": 80}]}
    first, second = ({"metadata": {"name": name}, "spec": spec} for name in ("first", "second"))
    stored = registry.restore(services, first)
    with pytest.raises(StatusError, match="provided IP is already allocated"):
        registry.restore(services, second)
    assert registry.restore(services, first)["spec"] == stored["spec"]


def test_an_object_that_a_file_cannot_replace_keeps_its_address() -> None:
    cluster = SmallCluster()
    for name, address in (("first", "10.0.0.4"), ("second", "10.0.0.5")):
        spec = {"clusterIP": address, "clusterIPs": [address], "ports": [{"port": 80}]}
        cluster.registry.restore(cluster.services, {"metadata": {"name": name}, "spec": spec})
    wrong = {"clusterIP": "10.0.0.4", "clusterIPs": ["10.0.0.4"], "ports": [{"port": 80}]}
    with pytest.raises(StatusError):
        cluster.registry.restore(cluster.services, {"metadata": {"name": "second"}, "spec": wrong})
    assert cluster.taken() == cluster.held() == ({"10.0.0.4", "10.0.0.5"}, set())


def test_no_name_is_generated_for_an_object_from_a_file() -> None:
    registry = new_registry()
    with pytest.raises(StatusError, match=r"metadata\.name: Required value"):
        registry.restore(registry.kinds["leases.coordination.k8s.io"], {"metadata": {"generateName": "cart-"}})


def test_generated_names_are_free_ones() -> None:
    registry = new_registry(chance=random.Random(7))
    leases = registry.kinds["leases.coordination.k8s.io"]
    wanted = decoded({"metadata": {"generateName": "cart-"}}, leases)
    names = {registry.create(leases, "default", wanted, ME).object["metadata"]["name"] for _ in range(50)}
    registry._chance = random.Random(7)  # the same names once more
    names |= {registry.create(leases, "default", wanted, ME).object["metadata"]["name"] for _ in range(50)}
    assert len(names) == 100


def test_what_is_in_the_store_is_nobodys_to_change() -> None:
    registry = new_registry()
    leases = registry.kinds["leases.coordination.k8s.io"]
    asked: Object = {"metadata": {"name": "cart", "labels": {"app": "cart"}}, "spec": {"holderIdentity": "me"}}
    given = decoded(asked, leases)
    told = registry.create(leases, "default", given, ME).object
    given["metadata"]["labels"]["app"] = told["spec"]["holderIdentity"] = "changed"
    kept = registry.get(leases, "default", "cart")
    assert (kept["metadata"]["labels"], kept["spec"]) == ({"app": "cart"}, {"holderIdentity": "me"})
