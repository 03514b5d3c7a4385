"""A cluster that does not stand still: Services, their ports and endpoints, and the node's zone change at random."""

import random
from contextlib import suppress
from typing import Final

from e2e.proxied import NODE
from tests.builders.objects import ZONE, a_node, a_service, a_slice
from tests.contract.api import Api, ApiError, Object

SERVICES: Final = 8
_PORTS: Final = (80, 81, 443)
_ZONES: Final = ("a", "b", "c")


class Churn:
    """`step` makes one change; the same chance makes the same ones. What the server does not take is left out."""

    def __init__(self, api: Api, chance: random.Random) -> None:
        self._api, self._chance = api, chance
        self._there: dict[int, list[Object]] = {}
        """By number, a Service and its slices."""

    def step(self) -> None:
        """Raises OSError where the server is away."""
        number = self._chance.randrange(SERVICES)
        with suppress(ApiError):
            if number not in self._there:
                self._create(number)
            elif (draw := self._chance.random()) < 0.8:
                self._api.replace(self._slice(number, self._chance.randrange(2)))
            elif draw < 0.95:
                things = self._there.pop(number)
                # Slices go before their Service, or after it.
                for each in things if self._chance.random() < 0.5 else reversed(things):
                    with suppress(ApiError):
                        self._api.delete(each)
            else:
                self._api.patch(a_node(NODE), {"metadata": {"labels": {ZONE: self._chance.choice(_ZONES)}}})

    def _create(self, number: int) -> None:
        is_six = number % 4 == 3
        ports: list[Object] = [
            {"name": f"p{port}", "port": port, "protocol": "TCP"}
            for port in self._chance.sample(_PORTS, self._chance.randint(1, 3))
        ]
        spec: Object = {
            "clusterIP": f"fd00:10:96::1{number}" if is_six else f"10.96.1.{number + 1}",
            "ipFamilies": ["IPv6" if is_six else "IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "ports": ports,
            "internalTrafficPolicy": self._chance.choice(["Cluster", "Cluster", "Local"]),
        }
        if number % 4 == 1:
            spec["sessionAffinity"] = "ClientIP"
        elif number % 4 == 2:
            for each in ports:
                each["nodePort"] = 31_000 + 10 * number + each["port"] % 10
            policy = self._chance.choice(["Cluster", "Local"])
            spec |= {"type": "NodePort", "externalIPs": [f"203.0.113.{number + 100}"], "externalTrafficPolicy": policy}
        self._there[number] = [a_service(f"churn-{number}", **spec), *(self._slice(number, place) for place in (0, 1))]
        for each in self._there[number]:
            self._api.create(each)

    def _slice(self, number: int, place: int) -> Object:
        is_six = number % 4 == 3
        some = self._chance.sample(range(1, 13), self._chance.randint(0, 6))
        addresses = [f"fd00:1::{number + 1}:{each}" if is_six else f"10.1.{number + 1}.{each}" for each in some]
        found = a_slice(f"churn-{number}-{place}", service=f"churn-{number}", addresses=addresses)
        found["addressType"] = "IPv6" if is_six else "IPv4"
        target = self._chance.choice((8080, 8081))
        found["ports"] = [{"name": f"p{port}", "port": target, "protocol": "TCP"} for port in _PORTS]
        has_hints = self._chance.random() < 0.5
        for endpoint in found["endpoints"]:
            zone, is_ready = self._chance.choice(_ZONES), self._chance.random() < 0.8
            endpoint |= {"zone": zone, "nodeName": NODE if zone == "a" else f"node-{zone}"}
            endpoint |= {"conditions": {"ready": is_ready, "serving": True, "terminating": not is_ready}}
            if has_hints:
                endpoint["hints"] = {"forZones": [{"name": zone}]}
        return found
