"""Endpoints that share an address are one endpoint to a proxy."""

from collections.abc import Sequence

from zoneward.kube.objects import Endpoint, identity, is_ready


def distinct(endpoints: Sequence[Endpoint], *, apart: bool) -> tuple[list[int], dict[int, int]]:
    """The ready endpoints that count, and those that share an address with one of them.

    Proxies see an address once, whoever stands behind it (Pods on the host's network do): it counts once, and all that
    have it get the same hint, for it is chance which of them a proxy reads. Upstream keeps them ``apart``.
    """
    ready = [number for number, endpoint in enumerate(endpoints) if is_ready(endpoint)]
    if apart:
        return ready, {}
    first: dict[str, int] = {}
    for number in ready:
        address = (endpoints[number].addresses or ("",))[0]
        other = first.setdefault(address, number)
        if other != number and identity(endpoints[number]) < identity(endpoints[other]):
            first[address] = number
    if len(first) == len(ready):
        return ready, {}
    twins = {number: first[(endpoints[number].addresses or ("",))[0]] for number in ready}
    return [number for number in ready if twins[number] == number], {
        number: twin for number, twin in twins.items() if twin != number
    }
