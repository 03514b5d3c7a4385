"""Which ports a Pod serves a Service on, and which Pods may therefore share an EndpointSlice."""

from collections.abc import Iterable

from zoneward.kube.objects import Container, EndpointPort, Pod, Service, ServicePort

PortKey = tuple[tuple[str, int, str, str], ...]


def port_key(ports: Iterable[EndpointPort] | None) -> PortKey:
    """A key that is the same for equal lists of ports, in any order; ``null`` and empty are equal."""
    keys = [(port.name or "", port.port or 0, port.protocol or "TCP", port.app_protocol or "") for port in ports or ()]
    return tuple(sorted(keys))


def has_named_targets(service: Service) -> bool:
    """Whether the number of a port depends on the Pod."""
    return any(isinstance(port.target_port, str) for port in service.spec.ports or ())


def ports_of(service: Service, pod: Pod | None) -> tuple[EndpointPort, ...]:
    """The ports of a Service on one Pod, as upstream resolves them: without a container port of the target's name, the
    port is left out.

    ``pod`` may be None where no target is a name. A headless Service may have no ports at all.
    """
    ports = []
    for port in service.spec.ports or ():
        target = target_of(port, pod)
        if target is not None:
            ports.append(
                EndpointPort(name=port.name, protocol=port.protocol, port=target, app_protocol=port.app_protocol)
            )
    return tuple(ports)


def target_of(port: ServicePort, pod: Pod | None) -> int | None:
    """The number of a Service port on a Pod: the target, the port itself where there is no target, or the container
    port of the target's name and protocol, in containers first, then in sidecars (init containers that always restart).
    """
    target = port.target_port
    if target is None or target == 0 or target == "":
        return port.port
    if isinstance(target, int):
        return target
    spec = pod.spec if pod is not None else None
    sidecars = (init for init in (spec.init_containers or ()) if init.restart_policy == "Always") if spec else ()
    for container in (*((spec.containers or ()) if spec else ()), *sidecars):
        port_number = _named(container, target, port.protocol)
        if port_number is not None:
            return port_number
    return None


def _named(container: Container, name: str, protocol: str) -> int | None:
    for port in container.ports or ():
        if port.name == name and port.protocol == protocol:
            return port.container_port
    return None
