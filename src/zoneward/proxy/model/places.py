"""Whose an address is that clients ask for."""

from zoneward.netlink.messages import Family
from zoneward.proxy.model.served import ObjectKey, Served, Spot


class Places:
    """Fed with what the node serves, in one family. A port of the node is a spot without an address."""

    def __init__(self) -> None:
        self._services: dict[Spot, tuple[ObjectKey, bool]] = {}
        self._asked: dict[ObjectKey, list[Spot]] = {}

    def put(self, service: ObjectKey, served: Served | None) -> None:
        """A Service as it is now; None: it is gone."""
        for each in self._asked.pop(service, ()):
            if self._services.get(each, (None,))[0] == service:
                del self._services[each]
        if served is None:
            return
        asked = self._asked[service] = []
        for port in served.ports:
            asked.extend((address, port.protocol, port.port) for address in served.addresses(port))
            if port.node_port is not None:
                asked.append(("", port.protocol, port.node_port))
        for each in asked:
            self._services[each] = service, each[0] == served.cluster_ip

    def service(self, address: str, protocol: str, port: int) -> tuple[ObjectKey, bool] | None:
        """The Service, and whether the address is its own (a cluster IP); None: it is nobody's we know."""
        return self._services.get((address, protocol, port)) or self._services.get(("", protocol, port))


def places() -> dict[Family, Places]:
    """One for each family."""
    return {"ip": Places(), "ip6": Places()}
