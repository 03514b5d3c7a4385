"""Whose an address is that clients ask for."""

from zoneward.proxy.served import Family, Key, Served

_Asked = tuple[str, str, int]
"""Address, protocol and port; without an address for a port of the node."""


class Places:
    """Fed with what the node serves, in one family."""

    def __init__(self) -> None:
        self._services: dict[_Asked, tuple[Key, bool]] = {}
        self._asked: dict[Key, list[_Asked]] = {}

    def put(self, service: Key, served: Served | None) -> None:
        """A Service as it is now; None: it is gone."""
        for each in self._asked.pop(service, ()):
            if self._services.get(each, (None,))[0] == service:
                del self._services[each]
        if served is None:
            return
        asked = self._asked[service] = []
        for port in served.ports:
            addresses = (served.cluster_ip, *served.external, *served.balancers)
            asked.extend((address, port.protocol, port.port) for address in addresses)
            if port.node_port is not None:
                asked.append(("", port.protocol, port.node_port))
        for each in asked:
            self._services[each] = service, each[0] == served.cluster_ip

    def service(self, address: str, protocol: str, port: int) -> tuple[Key, bool] | None:
        """The Service, and whether the address is its own (a cluster IP); None: it is nobody's we know."""
        return self._services.get((address, protocol, port)) or self._services.get(("", protocol, port))


def places() -> dict[Family, Places]:
    """One for each family."""
    return {"ip": Places(), "ip6": Places()}
