"""EndpointSlices: defaults, gates, generations (upstream's ``pkg/registry/discovery/endpointslice``, v1.36).

What is refused is in `zoneward.kube.validation`; here it is asked only about what an update has changed.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from zoneward.kube.objects import Endpoint, EndpointSlice
from zoneward.kube.validation import (
    MAX_ENDPOINTS,
    FieldError,
    content_errors,
    endpoint_errors,
    immutable,
    too_many,
)
from zoneward.sandbox.server.kinds import Object, ObjectReader, Strategy
from zoneward.sandbox.server.strategies import metadata

_CONTENT: Final = ("addressType", "endpoints", "ports")


class EndpointSliceStrategy(Strategy):
    """``zone_hints`` and ``node_hints`` are upstream's gates ``TopologyAwareHints`` and
    ``PreferSameTrafficDistribution``: without them hints are dropped that the stored slice has none of.
    """

    has_generation = True
    name_problems = staticmethod(metadata.subdomain_name_problems)

    def __init__(self, *, zone_hints: bool = True, node_hints: bool = True) -> None:
        self._zone_hints, self._node_hints = zone_hints, node_hints

    def default(self, new: Object, old: Object | None = None) -> None:
        ports = new.get("ports") or ()
        if any(port.get("name") is None or port.get("protocol") is None for port in ports):
            new["ports"] = [_with_defaults(port) for port in ports]

    def prepare_create(self, new: Object, surroundings: ObjectReader) -> None:
        self._drop(new, None)
        _as_stored(new)

    def prepare_update(self, new: Object, old: Object, surroundings: ObjectReader) -> None:
        self._drop(new, old)
        _as_stored(new)

    def restore(self, new: Object) -> Iterable[FieldError]:
        _as_stored(new)
        return ()

    def is_new_generation(self, new: Object, old: Object) -> bool:
        """Labels count, all other metadata does not."""
        labels, before = (each["metadata"].get("labels") or {} for each in (new, old))
        return labels != before or any((new.get(name) or None) != (old.get(name) or None) for name in _CONTENT)

    def _drop(self, new: Object, old: Object | None) -> None:
        endpoints = new.get("endpoints") or ()
        # This version of the API has no topology: upstream drops what it is given, and writes none.
        if any("deprecatedTopology" in endpoint for endpoint in endpoints):
            endpoints = new["endpoints"] = [_without(endpoint, "deprecatedTopology") for endpoint in endpoints]
        if self._zone_hints and self._node_hints:
            return
        known = [endpoint.get("hints") for endpoint in (old or {}).get("endpoints") or ()]
        if not self._zone_hints and not any(known):
            new["endpoints"] = [_without(endpoint, "hints") for endpoint in endpoints]
        elif not self._node_hints and not any(hints and hints.get("forNodes") for hints in known):
            new["endpoints"] = [
                endpoint | {"hints": _without(endpoint["hints"], "forNodes")} if endpoint.get("hints") else endpoint
                for endpoint in endpoints
            ]

    # --- errors -------------------------------------------------------------------------------------------------------

    def metadata_errors(self, new: Object) -> Iterable[FieldError]:
        return metadata.metadata_errors(new, name_problems=self.name_problems, is_namespaced=True)

    def metadata_update_errors(self, new: Object, old: Object) -> Iterable[FieldError]:
        return metadata.common_update_errors(new, old)

    def validate_create(self, new: Object) -> Iterator[FieldError]:
        yield from _content(new)
        yield from _endpoints(new, known={})

    def validate_update(self, new: Object, old: Object) -> Iterator[FieldError]:
        yield from metadata.metadata_errors(new, name_problems=self.name_problems, is_namespaced=True, old=old)
        type_, before = (each.get("addressType") or "" for each in (new, old))
        if type_ != before or new.get("ports") != old.get("ports"):
            yield from _content(new)
        if (endpoints := new.get("endpoints")) and endpoints != old.get("endpoints"):
            # What is in an endpoint is judged by itself: one that was good is good wherever it stands.
            is_same_type = type_ == before
            yield from _endpoints(new, known=_by_address(old.get("endpoints") or ()) if is_same_type else {})
        yield from immutable("addressType", type_, before)


def _as_stored(new: Object) -> None:
    """Who sends an empty list owns it; stored it is null."""
    for name in ("endpoints", "ports"):
        new[name] = new.get(name) or None


def _with_defaults(port: Mapping[str, Any]) -> Object:
    given = {name: value for name, value in port.items() if value is not None}
    return {"name": "", "protocol": "TCP"} | given


def _without(part: Mapping[str, Any], name: str) -> Object:
    return {each: value for each, value in part.items() if each != name}


def _content(slice_: Object) -> Iterator[FieldError]:
    content = {"addressType": slice_.get("addressType") or "", "ports": slice_.get("ports")}
    return content_errors(msgspec.convert(content, EndpointSlice))


def _endpoints(slice_: Object, *, known: Mapping[str, Object]) -> Iterator[FieldError]:
    """``known`` are endpoints that are good, by their first address."""
    endpoints = slice_.get("endpoints") or ()
    if len(endpoints) > MAX_ENDPOINTS:
        yield too_many("endpoints", len(endpoints), MAX_ENDPOINTS)
        return
    judged = {
        index: endpoint
        for index, endpoint in enumerate(endpoints)
        if not endpoint.get("addresses") or known.get(endpoint["addresses"][0]) != endpoint
    }
    address_type = slice_.get("addressType") or ""
    for index, endpoint in zip(judged, msgspec.convert(list(judged.values()), list[Endpoint]), strict=True):
        yield from endpoint_errors(endpoint, f"endpoints[{index}]", address_type)


def _by_address(endpoints: Iterable[Object]) -> dict[str, Object]:
    return {endpoint["addresses"][0]: endpoint for endpoint in endpoints if endpoint.get("addresses")}
