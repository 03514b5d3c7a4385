"""Endpoints of adopted Services beside a running controller."""

import asyncio
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from msgspec.structs import replace
from tests.builders import structs
from tests.builders.structs import SOME_TIME as NOON
from tests.client.recording import until
from tests.controller.a_controller import PODS, Place, a_place, addresses, at_work, fill, settle
from tests.controller.lines import Lines

from zoneward.client.api_errors import WritesSuspended, api_error
from zoneward.client.transport import Transport
from zoneward.controller.controller_configuration import Mode
from zoneward.controller.endpointslice_controller import EndpointSliceController
from zoneward.controller.handover import endpoints_object as keeping_endpoints
from zoneward.controller.handover.endpoints_object import (
    MANAGED_BY_LABEL,
    MANAGER,
    OVER_CAPACITY_ANNOTATION,
    TRUNCATED,
    has_own_endpoints_object,
    subsets_of,
    updated_endpoints,
)
from zoneward.controller.queue.work_queue import Batching
from zoneward.kube.adoption_marks import ENDPOINTS_ANNOTATION, SELECTOR_ANNOTATION, SKIP_MIRROR_LABEL
from zoneward.kube.names import HEADLESS_LABEL, TRIGGER_TIME_ANNOTATION
from zoneward.kube.objects import ContainerPort, Endpoints, EndpointSubset, ObjectMeta, Pod, Service, ServicePort

Object = dict[str, Any]
MARKS = {SELECTOR_ANNOTATION: '{"app": "cart"}', ENDPOINTS_ANNOTATION: "keep"}
PATH = "/api/v1/namespaces/default/endpoints"


@dataclass
class Server:
    """Records requests for Endpoints objects, and holds those objects. ``refuses``: the status that answers writes.
    ``suspends``: the number of writes that are not sent, because the Lease was not renewed in time."""

    sandbox: Place
    calls: list[str] = field(default_factory=list)
    refuses: int | None = None
    suspends: int = 0

    @contextmanager
    def watched(self) -> Iterator[None]:
        get, send = Transport.get, Transport.send

        async def noted_get(link: Transport, path: str, *given: Any, **options: Any) -> bytes:
            self.calls += ["GET"] * path.startswith(PATH)
            return await get(link, path, *given, **options)

        async def noted_send(link: Transport, method: str, path: str, *given: Any, **options: Any) -> bytes:
            self.calls += [method] * path.startswith(PATH)
            if path.startswith(PATH) and self.suspends:
                self.suspends -= 1
                raise WritesSuspended
            if path.startswith(PATH) and self.refuses is not None:
                raise api_error(self.refuses, b'{"kind": "Status"}')
            return await send(link, method, path, *given, **options)

        with patch.multiple(Transport, get=noted_get, send=noted_send):
            yield

    @property
    def objects(self) -> dict[str, Object]:
        return {object_["metadata"]["name"]: object_ for object_ in self.sandbox.objects("endpoints")}

    def listed(self, name: str = "cart") -> tuple[set[str], set[str]]:
        """Addresses that are ready, and that are not."""
        subsets = self.objects.get(name, {}).get("subsets") or ()
        ready, unready = (
            {one["ip"] for subset in subsets for one in subset.get(key) or ()}
            for key in ("addresses", "notReadyAddresses")
        )
        return ready, unready


@pytest.fixture(autouse=True)
def in_haste(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping_endpoints, "BATCHING", Batching(period=0.05))


@asynccontextmanager
async def kept(
    mode: Mode = Mode.ONLY_MARKED, **options: Any
) -> AsyncIterator[tuple[Place, Server, EndpointSliceController]]:
    async with a_place() as sandbox:
        server = Server(sandbox)
        fill(sandbox, selector=None, annotations=MARKS)
        with server.watched():
            async with at_work(sandbox, mode=mode, batching=Batching(), **options) as controller:
                yield sandbox, server, controller


async def test_endpoints_follow_pods_with_one_write_each() -> None:
    async with kept(Mode.TAKE_OVER) as (sandbox, server, controller):
        # The built-in controller manages the Endpoints objects of Services with a selector.
        sandbox.service("other")
        await settle(sandbox, controller)
        assert set(server.objects) == {"cart"}
        assert server.listed() == (addresses(*range(PODS)), set())
        assert server.calls == ["GET", "POST"]
        since = server.objects["cart"]["metadata"]["annotations"][TRIGGER_TIME_ANNOTATION]
        assert since == sandbox.service_now()["metadata"]["creationTimestamp"]
        sandbox.make_ready(1, False)
        await settle(sandbox, controller)
        assert server.listed() == (addresses(0, *range(2, PODS)), addresses(1))
        # What changes no endpoint costs nothing.
        sandbox.annotate("cart", MARKS | {"note": "b"})
        await settle(sandbox, controller)
        assert server.calls == ["GET", "POST", "PUT"]
        # It is deleted with its Service.
        sandbox.store.delete(sandbox.registry.kinds["services"], "default", "cart")
        await settle(sandbox, controller)
        assert server.objects == {}


async def test_a_concurrent_write_of_endpoints_is_a_conflict() -> None:
    async with kept() as (sandbox, server, controller):
        await settle(sandbox, controller)
        note = {"annotations": {"note": "b"}}
        sandbox.change("endpoints", "default", "cart", lambda old: old | {"metadata": old["metadata"] | note})
        server.calls.clear()
        sandbox.make_ready(1, False)
        await until(lambda: server.listed()[1] == addresses(1))
        await settle(sandbox, controller)
        assert server.calls == ["PUT", "GET", "PUT"]
        assert server.objects["cart"]["metadata"]["annotations"]["note"] == "b"
        sandbox.store.delete(sandbox.registry.kinds["endpoints"], "default", "cart")
        sandbox.make_ready(1, True)
        await until(lambda: server.listed() == (addresses(*range(PODS)), set()))


async def test_endpoints_of_a_service_that_is_deleted_after_a_failed_write_are_deleted() -> None:
    async with kept() as (sandbox, server, controller):
        await settle(sandbox, controller)
        server.refuses = 403
        sandbox.make_ready(1, False)
        await until(lambda: "PUT" in server.calls)
        sandbox.store.delete(sandbox.registry.kinds["services"], "default", "cart")
        await until(lambda: controller.cache.services.get("default", "cart") is None)
        server.refuses = None
        await settle(sandbox, controller)
        assert server.objects == {}


async def test_endpoints_that_somebody_replaced_are_not_deleted_with_their_service() -> None:
    async with kept() as (sandbox, server, controller):
        await settle(sandbox, controller)
        endpoints = sandbox.registry.kinds["endpoints"]
        sandbox.store.delete(endpoints, "default", "cart")
        sandbox.store.create(endpoints, "default", {"metadata": {"name": "cart"}})
        sandbox.store.delete(sandbox.registry.kinds["services"], "default", "cart")
        await settle(sandbox, controller)
        assert set(server.objects) == {"cart"}
        assert server.calls.count("DELETE") == 1


async def test_a_suspended_write_is_retried_with_its_trigger_time() -> None:
    async with kept() as (sandbox, server, controller):
        server.suspends = 2
        await settle(sandbox, controller)
        assert server.suspends == 0
        assert server.listed() == (addresses(*range(PODS)), set())
        assert TRIGGER_TIME_ANNOTATION in server.objects["cart"]["metadata"]["annotations"]


async def test_a_missing_permission_for_endpoints_does_not_delay_slices() -> None:
    async with kept() as (sandbox, server, controller):
        await settle(sandbox, controller)
        server.refuses = 403
        for ready in (False, True, False):
            sandbox.make_ready(1, ready)
            await until(lambda ready=ready: (addresses(1) <= sandbox.listed()) == ready)  # type: ignore[misc]
        server.refuses = None
        await until(lambda: server.listed()[1] == addresses(1))
        await settle(sandbox, controller)


async def test_nothing_is_read_or_written_on_standby() -> None:
    leading = asyncio.Event()
    async with kept(leading=leading) as (sandbox, server, controller):
        await controller.cache.synced.wait()
        await asyncio.sleep(0.1)
        assert server.calls == []
        leading.set()
        await settle(sandbox, controller)
        leading.clear()
        controller.stepped_down()
        sandbox.make_ready(1, False)
        await asyncio.sleep(0.1)
        assert server.calls == ["GET", "POST"]
        leading.set()
        await settle(sandbox, controller)
        assert server.calls == ["GET", "POST", "GET", "PUT"]


async def test_an_exception_while_writing_endpoints_is_logged_once_and_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = True

    def breaking(*given: Any, **options: Any) -> Any:
        if broken:
            raise RuntimeError("a bug")
        return updated_endpoints(*given, **options)

    log = Lines()
    monkeypatch.setattr(keeping_endpoints, "updated_endpoints", breaking)
    async with kept(log=log) as (_, server, _):
        await until(lambda: len(server.calls) > 2)
        broken = False
        await until(lambda: server.listed() == (addresses(*range(PODS)), set()))
    ((_, fields),) = [(event, logged) for event, logged in log.lines if "Endpoints" in event]
    assert fields["error"] == "RuntimeError: a bug"


# --- What they hold, as the built-in controller writes it; beside the real one in e2e ---------------------------------


HTTP = ServicePort(name="http", port=80, target_port="http")


def a_service(**options: Any) -> Service:
    """An adopted one."""
    given: dict[str, Any] = {
        "labels": {"team": "a"},
        "annotations": MARKS,
        "selects": False,
        "families": None,
        "ports": (HTTP,),
    }
    return structs.a_service(**given | options)


def a_pod(index: int, *, ports: tuple[tuple[str, int], ...] = (("http", 8080),), **options: Any) -> Pod:
    served = [ContainerPort(name=name, container_port=port) for name, port in ports]
    given: dict[str, Any] = {"ips": (f"10.0.{index // 250}.{index % 250}",), "ports": served}
    return structs.a_pod(f"cart-{index}", **given | options)


def subsets(service: Service, *pods: Pod) -> list[tuple[list[str], list[str], list[Any]]]:
    """Addresses that are ready, that are not, and names and numbers of ports."""
    return [
        (
            [address.ip for address in subset.addresses or ()],
            [address.ip for address in subset.not_ready_addresses or ()],
            [(port.name, port.port) for port in subset.ports or ()],
        )
        for subset in subsets_of(service, pods)
    ]


def test_pods_that_serve_the_same_ports_are_in_one_subset_sorted_as_text() -> None:
    pods = [a_pod(2), a_pod(10, ready=False), a_pod(1, hostname="one", subdomain="cart")]
    assert subsets(a_service(), *pods) == [(["10.0.0.1", "10.0.0.2"], ["10.0.0.10"], [("http", 8080)])]
    (subset,) = subsets_of(a_service(), pods)
    assert msgspec.to_builtins((subset.addresses or ())[0]) == {
        "ip": "10.0.0.1",
        "hostname": "one",
        "nodeName": "node-a",
        "targetRef": {"kind": "Pod", "namespace": "shop", "name": "cart-1", "uid": "uid-of-cart-1"},
    }


def test_ports_of_different_pods_are_in_separate_subsets() -> None:
    metrics = ServicePort(name="metrics", port=81, target_port="metrics")
    service = a_service(ports=(HTTP, metrics, ServicePort(name="both", port=82, target_port=9000)))
    pods = [a_pod(1), a_pod(2, ports=(("http", 8081), ("metrics", 9090))), a_pod(3, ports=())]
    assert subsets(service, *pods) == [
        (["10.0.0.1", "10.0.0.2", "10.0.0.3"], [], [("both", 9000)]),
        (["10.0.0.1"], [], [("http", 8080)]),
        (["10.0.0.2"], [], [("http", 8081), ("metrics", 9090)]),
    ]


@pytest.mark.parametrize(
    ("pod", "publishes", "expected"),
    [
        (a_pod(1, phase="Succeeded"), True, None),
        (a_pod(1, phase="Failed"), True, None),
        (a_pod(1, ips=()), True, None),
        (a_pod(1, terminating=True), False, None),
        (a_pod(1, terminating=True), True, "ready"),
        (a_pod(1, ready=False), False, "not ready"),
        (a_pod(1, ready=False), True, "ready"),
        (a_pod(1, ips=("fd00::1",)), False, None),
        (a_pod(1, ips=("fd00::1", "10.0.0.1")), False, "ready"),
    ],
)
def test_pods_are_listed_by_phase_and_readiness(pod: Pod, publishes: bool, expected: str | None) -> None:
    result = subsets(a_service(publish_not_ready=publishes, families=["IPv4"]), pod)
    where = [name for ready, unready, _ in result for name in ["ready"] * len(ready) + ["not ready"] * len(unready)]
    assert where == ([expected] if expected else [])


@pytest.mark.parametrize(
    ("spec", "ip"),
    [
        ({"families": ["IPv6", "IPv4"]}, "fd00::1"),
        ({"families": ["IPv4", "IPv6"]}, "10.0.0.1"),
        ({"cluster_ip": "fd00:1::1"}, "fd00::1"),
        # The Pod's own first address.
        ({"cluster_ip": "None"}, "10.0.0.1"),
    ],
)
def test_addresses_have_the_first_family_of_the_service(spec: dict[str, Any], ip: str) -> None:
    assert subsets(a_service(**spec), a_pod(1, ips=("10.0.0.1", "fd00::1"))) == [([ip], [], [("http", 8080)])]


def test_only_a_headless_service_may_have_no_ports() -> None:
    assert subsets(a_service(ports=(), cluster_ip="None"), a_pod(1)) == [(["10.0.0.1"], [], [])]
    assert subsets(a_service(ports=()), a_pod(1)) == []


def test_labels_are_those_of_the_service_and_other_metadata_is_kept() -> None:
    existing = Endpoints(
        metadata=ObjectMeta(
            name="cart",
            namespace="shop",
            uid="e-1",
            resource_version="7",
            labels={"old": "label"},
            annotations={"note": "b", TRIGGER_TIME_ANNOTATION: "old"},
            finalizers=("somebody/waits",),
        )
    )
    labels = {"team": "a", SKIP_MIRROR_LABEL: "true", MANAGED_BY_LABEL: MANAGER}
    new = updated_endpoints(existing, a_service(), [a_pod(1)], trigger_time=NOON)
    assert new is not None
    annotations = {"note": "b", TRIGGER_TIME_ANNOTATION: NOON}
    assert new.metadata == replace(existing.metadata, labels=labels, annotations=annotations)
    headless = updated_endpoints(existing, a_service(cluster_ip="None"), [a_pod(1)])
    assert headless is not None
    assert headless.metadata.labels == labels | {HEADLESS_LABEL: ""}
    assert headless.metadata.annotations == {"note": "b"}


def test_an_object_without_a_change_is_not_written() -> None:
    service, pods = a_service(), [a_pod(index, ready=index % 2 == 0) for index in range(4)]
    existing = updated_endpoints(None, service, pods, trigger_time=NOON)
    assert existing is not None
    (whole,) = existing.subsets or ()
    parts = replace(whole, not_ready_addresses=None), replace(whole, addresses=None)
    unlabelled = replace(existing, metadata=replace(existing.metadata, labels={"team": "a"}))
    # The headless label alone is no reason, as upstream.
    headless = a_service(cluster_ip="None")
    assert updated_endpoints(existing, service, reversed(pods)) is None
    assert updated_endpoints(replace(existing, subsets=parts), service, pods) is None, "however it is packed"
    assert updated_endpoints(existing, headless, pods) is None
    assert updated_endpoints(existing, service, pods[1:]) is not None
    assert updated_endpoints(existing, service, [a_pod(0, ready=False), *pods[1:]]) is not None
    assert updated_endpoints(unlabelled, service, pods) is not None


@pytest.mark.parametrize(
    ("ready", "unready", "expected"),
    [(900, 100, (900, 100)), (900, 300, (900, 100)), (1200, 300, (1000, 0)), (0, 1500, (0, 1000))],
)
def test_of_more_than_a_thousand_addresses_ready_ones_are_first(
    ready: int, unready: int, expected: tuple[int, int]
) -> None:
    # Two subsets: every third Pod serves another port.
    pods = [
        a_pod(index, ready=index < ready, ports=(("http", 8080 + (index % 3 == 0)),))
        for index in range(ready + unready)
    ]
    new = updated_endpoints(None, a_service(), pods)
    assert new is not None
    assert len(new.subsets or ()) == 2
    assert sum(len(subset.addresses or ()) for subset in new.subsets or ()) == expected[0]
    assert sum(len(subset.not_ready_addresses or ()) for subset in new.subsets or ()) == expected[1]
    is_cut = ready + unready > 1000
    assert ((new.metadata.annotations or {}).get(OVER_CAPACITY_ANNOTATION) == TRUNCATED) == is_cut
    assert updated_endpoints(new, a_service(), pods) is None
    fewer = updated_endpoints(new, a_service(), pods[:10])
    assert fewer is not None
    assert fewer.metadata.annotations is None


def test_only_endpoints_of_adopted_services_are_written() -> None:
    assert has_own_endpoints_object(a_service())
    assert not has_own_endpoints_object(a_service(selects=True))
    for marks in (MARKS | {ENDPOINTS_ANNOTATION: "delete"}, *({name: MARKS[name]} for name in MARKS)):
        assert not has_own_endpoints_object(a_service(annotations=marks))


def test_an_object_of_many_addresses_and_ports_is_compared_without_making_every_pair() -> None:
    ports = [{"name": f"p{index}", "port": index} for index in range(1, 1_001)]
    addresses = [{"ip": f"10.{index >> 8}.{index & 255}.1"} for index in range(1_000)]
    many = msgspec.convert([{"addresses": addresses, "ports": ports}], tuple[EndpointSubset, ...])
    ours = updated_endpoints(None, a_service(), [a_pod(1)])
    assert ours is not None
    tracemalloc.start()
    try:
        wanted = updated_endpoints(replace(ours, subsets=many), a_service(), [a_pod(1)])
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert wanted is not None
    assert most < 2**20, "a million pairs take 200 MB"
