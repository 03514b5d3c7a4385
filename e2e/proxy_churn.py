"""A cluster that does not stand still: Services, their ports and endpoints, and the node's zone change at random."""

import random
from contextlib import suppress
from typing import Final

from e2e.proxied import NODE
from tests.builders.objects import ZONE, a_service, a_slice
from tests.contract.api import MERGE_PATCH, Api, ApiError, Object

SERVICES: Final = 8
_MOST: Final = 6
"""Endpoints of a slice."""
_PORTS: Final = (8080, 8081)
_ZONES: Final = ("a", "b", "c")


class Churn:
    """`step` makes one change; the same chance makes the same ones. What the server does not take is left out."""

    def __init__(self, api: Api, chance: random.Random) -> None:
        self._api, self._chance = api, chance
        self._services: dict[int, Object] = {}
        self._slices: dict[tuple[int, int], Object] = {}

    def step(self) -> None:
        """Raises OSError where the server is away."""
        changes = [self._replace_slice] * 8 + [self._create] * 4 + [self._change_service, self._delete] * 2
        change = self._chance.choice([*changes, self._move_node])
        with suppress(ApiError):
            change()

    def _create(self) -> None:
        number = self._chance.randrange(SERVICES)
        if number in self._services:
            self._replace_slice()
            return
        is_six = number % 4 == 3
        spec: Object = {
            "clusterIP": f"fd00:10:96::1{number}" if is_six else f"10.96.1.{number + 1}",
            "ipFamilies": ["IPv6" if is_six else "IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "ports": self._ports(number),
            "internalTrafficPolicy": self._chance.choice(["Cluster", "Cluster", "Local"]),
        }
        if number % 4 == 1:
            spec["sessionAffinity"] = "ClientIP"
        elif number % 4 == 2:
            policy = self._chance.choice(["Cluster", "Local"])
            spec |= {"type": "NodePort", "externalIPs": [f"203.0.113.{number + 100}"], "externalTrafficPolicy": policy}
        self._services[number] = service = a_service(f"churn-{number}", **spec)
        self._api.create(service)
        for place in range(self._chance.randint(0, 2)):
            self._put(number, place)

    def _replace_slice(self) -> None:
        if not self._services:
            self._create()
            return
        self._put(self._chance.choice(sorted(self._services)), self._chance.randrange(2))

    def _put(self, number: int, place: int) -> None:
        key = number, place
        thing = self._slice(number, place)
        write = self._api.replace if key in self._slices else self._api.create
        self._slices[key] = thing
        write(thing)

    def _change_service(self) -> None:
        if not self._services:
            return
        number = self._chance.choice(sorted(self._services))
        patch = {"spec": {"ports": self._ports(number)}}
        self._api.patch(self._services[number], patch, content_type=MERGE_PATCH)

    def _delete(self) -> None:
        if not self._services:
            return
        number = self._chance.choice(sorted(self._services))
        service = self._services.pop(number)
        things = [service, *(self._slices.pop(key) for key in [(number, 0), (number, 1)] if key in self._slices)]
        # Slices go before their Service, or after it.
        for each in things if self._chance.random() < 0.5 else reversed(things):
            with suppress(ApiError):
                self._api.delete(each)

    def _move_node(self) -> None:
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}
        self._api.patch(node, {"metadata": {"labels": {ZONE: self._chance.choice(_ZONES)}}})

    def _ports(self, number: int) -> list[Object]:
        found: list[Object] = []
        for port in self._chance.sample([80, 81, 443], self._chance.randint(1, 3)):
            each: Object = {"name": f"p{port}", "port": port, "protocol": "TCP", "targetPort": 8080}
            if number % 4 == 2:
                each["nodePort"] = 31_000 + 10 * number + port % 10
            found.append(each)
        return found

    def _slice(self, number: int, place: int) -> Object:
        is_six = number % 4 == 3
        some = self._chance.sample(range(1, 13), self._chance.randint(0, _MOST))
        addresses = [f"fd00:1::{number + 1}:{each}" if is_six else f"10.1.{number + 1}.{each}" for each in some]
        found = a_slice(f"churn-{number}-{place}", service=f"churn-{number}", addresses=addresses)
        found["addressType"] = "IPv6" if is_six else "IPv4"
        target = self._chance.choice(_PORTS)
        found["ports"] = [{"name": f"p{port}", "port": target, "protocol": "TCP"} for port in (80, 81, 443)]
        has_hints = self._chance.random() < 0.5
        for each in found["endpoints"]:
            zone, is_ready = self._chance.choice(_ZONES), self._chance.random() < 0.8
            each |= {"zone": zone, "nodeName": NODE if zone == "a" else f"node-{zone}"}
            each |= {"conditions": {"ready": is_ready, "serving": True, "terminating": not is_ready}}
            if has_hints:
                each["hints"] = {"forZones": [{"name": zone}]}
        return found
