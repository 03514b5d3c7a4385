"""The Endpoints object of a Service that was adopted with ``--endpoints keep``, as the built-in controller would have
it. Values in, values out.

One thing is different: the label ``skip-mirror`` is always there. Without a selector on the Service the mirroring
controller would make slices of the object, and every endpoint would be listed twice.
"""

from collections.abc import Iterable, Mapping
from math import ceil
from typing import Final

from msgspec.structs import replace

from zoneward.kube.adoption_marks import ENDPOINTS_ANNOTATION, SKIP_MIRROR_LABEL, has_selector_annotation
from zoneward.kube.names import DOMAIN, HEADLESS, HEADLESS_LABEL, TRIGGER_TIME_ANNOTATION
from zoneward.kube.objects import EndpointAddress, EndpointPort, Endpoints, EndpointSubset, ObjectMeta, Pod, Service
from zoneward.slices.endpoints import IPV4, IPV6, endpoint_of, has_endpoint
from zoneward.slices.ports import ports_of

MOST_ADDRESSES: Final = 1_000
"""More than these are left out, and an annotation says so."""
OVER_CAPACITY_ANNOTATION: Final = "endpoints.kubernetes.io/over-capacity"
TRUNCATED: Final = "truncated"
MANAGED_BY_LABEL: Final = "endpoints.kubernetes.io/managed-by"
MANAGER: Final = f"endpoint-controller.{DOMAIN}"
_KEEP: Final = "keep"
_Port = tuple[str, int, str, str]
_Host = tuple[str, str]
"""Address and UID of the Pod, in the order in which upstream sorts them."""


def is_kept(service: Service) -> bool:
    """Whether the Endpoints object of a Service is ours to keep: it was adopted, and nobody else keeps it."""
    annotations = service.metadata.annotations or {}
    return (
        not service.spec.selector
        and has_selector_annotation(service)
        and annotations.get(ENDPOINTS_ANNOTATION) == _KEEP
    )


def renewed(
    there: Endpoints | None, service: Service, pods: Iterable[Pod], *, trigger_time: str | None = None
) -> Endpoints | None:
    """What to write for a Service with these Pods, over what is ``there``; None: it is as it should be.

    Whatever else stands in the metadata stays. ``trigger_time`` goes into what is written, and is no reason to.
    """
    whole = subsets_of(service, pods)
    subsets = truncated(whole)
    metadata = ObjectMeta(name=service.metadata.name, namespace=service.metadata.namespace)
    if there is not None:
        metadata = there.metadata
        annotations = metadata.annotations or {}
        is_marked_so = annotations.get(OVER_CAPACITY_ANNOTATION) == TRUNCATED
        if (
            is_marked_so == (subsets is not whole)
            and _said(metadata.labels) == _said(_labels(service))
            and (there.subsets == subsets or _are_equal(there.subsets or (), subsets))
        ):
            return None
    annotations = dict(metadata.annotations or {})
    for name, value in (
        (TRIGGER_TIME_ANNOTATION, trigger_time),
        (OVER_CAPACITY_ANNOTATION, TRUNCATED if subsets is not whole else None),
    ):
        annotations.pop(name, None)
        if value is not None:
            annotations[name] = value
    metadata = replace(metadata, labels=_labels(service), annotations=annotations or None)
    return Endpoints(metadata=metadata, subsets=subsets)


def subsets_of(service: Service, pods: Iterable[Pod]) -> tuple[EndpointSubset, ...]:
    """All of them, packed as upstream does: ports that the same Pods serve are in one subset.

    Addresses are sorted as upstream sorts them; ports and subsets, which it sorts by a hash, by what they are. It
    takes no notice of their order.
    """
    spec = service.spec
    publishes = spec.publish_not_ready_addresses is True
    hosts: dict[_Host, tuple[EndpointAddress, bool]] = {}
    serving: dict[_Port | None, dict[_Host, None]] = {}
    ports: dict[_Port, EndpointPort] = {}
    for pod in pods:
        if not has_endpoint(pod) or (pod.metadata.deletion_timestamp is not None and not publishes):
            continue
        endpoint = endpoint_of(pod, service, zone=None, address_type=_family(service, pod))
        served = ports_of(service, pod)
        # Only a headless Service may do without ports.
        if endpoint is None or not (served or (not spec.ports and spec.cluster_ip == HEADLESS)):
            continue
        ip = (endpoint.addresses or ("",))[0]
        host = ip, pod.metadata.uid
        address = EndpointAddress(
            ip=ip, hostname=endpoint.hostname, node_name=endpoint.node_name, target_ref=endpoint.target_ref
        )
        assert endpoint.conditions is not None
        hosts[host] = address, endpoint.conditions.ready is True
        for port in served:
            key = _port(port)
            ports[key] = port
            serving.setdefault(key, {})[host] = None
        if not served:
            serving.setdefault(None, {})[host] = None
    packed: dict[tuple[_Host, ...], list[_Port]] = {}
    for wanted, keys in serving.items():
        found = packed.setdefault(tuple(sorted(keys)), [])
        if wanted is not None:
            found.append(wanted)
    return tuple(
        EndpointSubset(
            addresses=tuple(hosts[key][0] for key in keys if hosts[key][1]) or None,
            not_ready_addresses=tuple(hosts[key][0] for key in keys if not hosts[key][1]) or None,
            ports=tuple(ports[key] for key in sorted(found)) or None,
        )
        for keys, found in sorted(packed.items(), key=lambda each: (sorted(each[1]), each[0]))
    )


def truncated(subsets: tuple[EndpointSubset, ...]) -> tuple[EndpointSubset, ...]:
    """At most `MOST_ADDRESSES`, those that are ready first, from each subset by its share, as upstream does it; the
    very same where nothing has to go."""
    ready = sum(len(each.addresses or ()) for each in subsets)
    total = ready + sum(len(each.not_ready_addresses or ()) for each in subsets)
    if total <= MOST_ADDRESSES:
        return subsets
    cuts_ready = ready > MOST_ADDRESSES
    most = left = MOST_ADDRESSES if cuts_ready else MOST_ADDRESSES - ready
    of = ready if cuts_ready else total - ready
    found = []
    for each in subsets:
        addresses = (each.addresses if cuts_ready else each.not_ready_addresses) or ()
        # Rounded up, so that what is left for the last ones may be less than their share.
        kept = addresses[: min(left, ceil(len(addresses) / of * most))] or None
        left -= len(kept or ())
        if cuts_ready:
            found.append(replace(each, addresses=kept, not_ready_addresses=None))
        else:
            found.append(replace(each, not_ready_addresses=kept))
    # An API server takes no subset without addresses.
    return tuple(each for each in found if each.addresses or each.not_ready_addresses)


def _family(service: Service, pod: Pod) -> str:
    """The first one of the Service; where nothing says so, that of the Pod."""
    spec = service.spec
    if spec.ip_families:
        return spec.ip_families[0]
    ip = spec.cluster_ip if spec.cluster_ip and spec.cluster_ip != HEADLESS else pod.status.pod_ip
    return IPV6 if ":" in ip else IPV4


def _labels(service: Service) -> dict[str, str]:
    labels = dict(service.metadata.labels or {})
    labels.pop(HEADLESS_LABEL, None)
    if not service.spec.cluster_ip or service.spec.cluster_ip == HEADLESS:
        labels[HEADLESS_LABEL] = ""
    return labels | {SKIP_MIRROR_LABEL: "true", MANAGED_BY_LABEL: MANAGER}


def _said(labels: Mapping[str, str] | None) -> dict[str, str]:
    return {name: value for name, value in (labels or {}).items() if name != HEADLESS_LABEL}


def _port(port: EndpointPort) -> _Port:
    return port.name or "", port.port or 0, port.protocol or "TCP", port.app_protocol or ""


def _are_equal(there: Iterable[EndpointSubset], wanted: Iterable[EndpointSubset]) -> bool:
    """Whether both say the same, however they are packed. What is there may be anybody's: an object of 1 MB can have
    100 million pairs of address and port, which are therefore counted before they are made. API servers keep each pair
    once, so that there are no more of them than we want."""
    return _number(there) <= _number(wanted) and _facts(there) == _facts(wanted)


def _number(subsets: Iterable[EndpointSubset]) -> int:
    return sum(
        (len(each.addresses or ()) + len(each.not_ready_addresses or ())) * (len(each.ports or ()) or 1)
        for each in subsets
    )


def _facts(subsets: Iterable[EndpointSubset]) -> set[tuple[EndpointAddress, bool, _Port | None]]:
    """Every address with every port and whether it is ready, however they are packed."""
    return {
        (address, is_ready, port)
        for each in subsets
        for addresses, is_ready in ((each.addresses, True), (each.not_ready_addresses, False))
        for address in addresses or ()
        for port in ([_port(port) for port in each.ports] if each.ports else (None,))
    }
