"""Deterministic names of new slices: a repeated create meets the slice it made before and can never make a second."""

from collections.abc import Container, Sequence
from hashlib import sha256
from typing import Final

from zoneward.kube.objects import Service
from zoneward.slices.ports import PortKey

_LONGEST: Final = 253
_HASH_LENGTH: Final = 10


def slice_name(
    service: Service, *, address_type: str, ports: PortKey, taken: Sequence[Container[str]] = (), group: str = ""
) -> str:
    """A name that is free in the Service's namespace.

    The hash covers the Service's UID, the address family, the ports, the slice group and the smallest number whose name
    is not taken.
    """
    meta = service.metadata
    number = 0
    while True:
        parts = (meta.uid, meta.namespace, meta.name, address_type, repr(ports), group, str(number))
        digest = sha256("\0".join(parts).encode()).hexdigest()[:_HASH_LENGTH]
        # A part that is cut must not end with what may not stand before the hyphen.
        name = f"{meta.name[: _LONGEST - _HASH_LENGTH - 1].rstrip('.-')}-{digest}"
        if not any(name in names for names in taken):
            return name
        number += 1
