"""Random changes of Services, their ports and endpoints, and of the node's zone."""

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
    """`step` makes one change; the same seed gives the same changes. Changes that the server rejects are skipped."""

    def __init__(self, api: Api, chance: random.Random) -> None:
        self._api, self._chance = api, chance
        self._there: dict[int, list[Object]] = {}
        """By number, a Service and its slices."""

    def step(self) -> None:
        """Raises OSError where the server is away."""
        index = self._chance.randrange(SERVICES)
        with suppress(ApiError):
            if index not in self._there:
                self._create(index)
            elif (draw := self._chance.random()) < 0.8:
                self._api.replace(self._slice(index, self._chance.randrange(2)))
            elif draw < 0.95:
                things = self._there.pop(index)
                # Slices go before their Service, or after it.
                for object_ in things if self._chance.random() < 0.5 else reversed(things):
                    with suppress(ApiError):
                        self._api.delete(object_)
            else:
                self._api.patch(a_node(NODE), {"metadata": {"labels": {ZONE: self._chance.choice(_ZONES)}}})

    def _create(self, index: int) -> None:
        is_six = index % 4 == 3
        ports: list[Object] = [
            {"name": f"p{port}", "port": port, "protocol": "TCP"}
            for port in self._chance.sample(_PORTS, self._chance.randint(1, 3))
        ]
        spec: Object = {
            "clusterIP": f"fd00:10:96::1{index}" if is_six else f"10.96.1.{index + 1}",
            "ipFamilies": ["IPv6" if is_six else "IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "ports": ports,
            "internalTrafficPolicy": self._chance.choice(["Cluster", "Cluster", "Local"]),
        }
        if index % 4 == 1:
            spec["sessionAffinity"] = "ClientIP"
        elif index % 4 == 2:
            for port_spec in ports:
                port_spec["nodePort"] = 31_000 + 10 * index + port_spec["port"] % 10
            policy = self._chance.choice(["Cluster", "Local"])
            spec |= {"type": "NodePort", "externalIPs": [f"203.0.113.{index + 100}"], "externalTrafficPolicy": policy}
        self._there[index] = [
            a_service(f"churn-{index}", **spec),
            *(self._slice(index, slice_index) for slice_index in (0, 1)),
        ]
        for port_spec in self._there[index]:
            self._api.create(port_spec)

    def _slice(self, index: int, slice_index: int) -> Object:
        is_six = index % 4 == 3
        hosts = self._chance.sample(range(1, 13), self._chance.randint(0, 6))
        addresses = [f"fd00:1::{index + 1}:{host}" if is_six else f"10.1.{index + 1}.{host}" for host in hosts]
        slice_ = a_slice(f"churn-{index}-{slice_index}", service=f"churn-{index}", addresses=addresses)
        slice_["addressType"] = "IPv6" if is_six else "IPv4"
        target = self._chance.choice((8080, 8081))
        slice_["ports"] = [{"name": f"p{port}", "port": target, "protocol": "TCP"} for port in _PORTS]
        has_hints = self._chance.random() < 0.5
        for endpoint in slice_["endpoints"]:
            zone, is_ready = self._chance.choice(_ZONES), self._chance.random() < 0.8
            endpoint |= {"zone": zone, "nodeName": NODE if zone == "a" else f"node-{zone}"}
            endpoint |= {"conditions": {"ready": is_ready, "serving": True, "terminating": not is_ready}}
            if has_hints:
                endpoint["hints"] = {"forZones": [{"name": zone}]}
        return slice_
