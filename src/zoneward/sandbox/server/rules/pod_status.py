"""Judging the status of pods (upstream's ``ValidatePodStatusUpdate``, v1.36).

Addresses and names that are as they were have been judged before. Users and devices of containers are not judged.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from zoneward.kube import formats
from zoneward.kube.validation import FieldError
from zoneward.sandbox.server.kinds import Object
from zoneward.sandbox.server.rules.pod_errors import all_invalid, duplicate, forbidden, internal, invalid

_OF_THE_SYSTEM: Final = frozenset({"PodScheduled", "Ready", "Initialized"})
_NOT_NEGATIVE: Final = "must be a non-negative integer"


def keep_observed(status: Object, old: Object) -> None:
    """Nobody can unsay which generation was seen, of the whole or of a condition. Changes ``status``."""
    if not status.get("observedGeneration") and old.get("observedGeneration"):
        status["observedGeneration"] = old["observedGeneration"]
    seen: dict[str, list[int]] = {}
    is_any = False
    for condition in old.get("conditions") or ():
        generation = condition.get("observedGeneration") or 0
        is_any |= generation != 0
        seen.setdefault(condition.get("type") or "", []).append(generation)
    if not is_any:
        return
    conditions = []
    for condition in status.get("conditions") or ():
        before = seen.get(condition.get("type") or "") or [0]
        generation = before.pop(0)
        if generation and not condition.get("observedGeneration"):
            condition = {**condition, "observedGeneration": generation}
        conditions.append(condition)
    if conditions:
        status["conditions"] = conditions


def status_errors(new: Object, old: Object) -> Iterator[FieldError]:
    """Of whole pods, whose specs are the same."""
    status, before, spec = new.get("status") or {}, old.get("status") or {}, old["spec"]
    if status is before:
        return
    for index, condition in enumerate(status.get("conditions") or ()):
        here, kind = f"status.conditions[{index}]", condition.get("type") or ""
        if (generation := condition.get("observedGeneration") or 0) < 0:
            yield invalid(f"{here}.observedGeneration", generation, _NOT_NEGATIVE)
        if kind not in _OF_THE_SYSTEM and (problems := _type_problems(kind)):
            yield from all_invalid(f"{here}.Type", kind, problems)
    nominated = status.get("nominatedNodeName") or ""
    if nominated and nominated != before.get("nominatedNodeName"):
        yield from all_invalid("status.nominatedNodeName", nominated, formats.subdomain_problems(nominated))
        if spec.get("nodeName"):
            rule = "may not be set on pods that are already bound to a node"
            yield forbidden("status.nominatedNodeName", rule)
    if (generation := status.get("observedGeneration") or 0) < 0:
        yield invalid("status.observedGeneration", generation, _NOT_NEGATIVE)
    if (status.get("qosClass") or "") != (before.get("qosClass") or ""):
        yield invalid("status.qosClass", status.get("qosClass") or "", "field is immutable")
    yield from _transitions(status, before, spec)
    yield from _claims(status, spec)
    if status.get("podIPs") != before.get("podIPs"):
        yield from _addresses(status.get("podIPs") or [], "status.podIPs")
    if (status.get("hostIP"), status.get("hostIPs")) != (before.get("hostIP"), before.get("hostIPs")):
        hosts = status.get("hostIPs") or []
        if hosts and (first := hosts[0].get("ip") or "") != (status.get("hostIP") or ""):
            yield invalid("status.hostIPs[0].ip", first, "must be equal to `hostIP`")
        yield from _addresses(hosts, "status.hostIPs")


@lru_cache(maxsize=1024)
def _type_problems(kind: str) -> tuple[str, ...]:
    return tuple(formats.qualified_name_problems(kind))


def _transitions(status: Object, before: Object, spec: Object) -> Iterator[FieldError]:
    """What has ended does not run again, unless the pod says so."""
    policy = spec.get("restartPolicy")
    sidecars = {
        container.get("name") for container in spec.get("initContainers") or () if container.get("restartPolicy")
    }
    own = {container.get("name") for container in spec.get("containers") or () if container.get("restartPolicy")}
    for kind, restarts, spared in (
        ("containerStatuses", policy, own),
        ("initContainerStatuses", policy, sidecars),
        ("ephemeralContainerStatuses", "Never", set[str]()),
    ):
        if restarts == "Always" or status.get(kind) == before.get(kind):
            continue
        running = {
            each.get("name") for each in status.get(kind) or () if (each.get("state") or {}).get("terminated") is None
        }
        for index, each in enumerate(before.get(kind) or ()):
            ended = (each.get("state") or {}).get("terminated")
            if ended is None or (ended.get("exitCode") and restarts == "OnFailure"):
                continue
            name = each.get("name")
            if name in running and name not in spared:
                yield forbidden(f"status.{kind}[{index}].state", "may not be transitioned to non-terminated state")


def _claims(status: Object, spec: Object) -> Iterator[FieldError]:
    known = {claim.get("name") for claim in spec.get("resourceClaims") or ()}
    seen: set[str] = set()
    for index, claim in enumerate(status.get("resourceClaimStatuses") or ()):
        here, name = f"status.resourceClaimStatuses[{index}].name", claim.get("name") or ""
        if name not in known:
            yield invalid(here, name, "must match the name of an entry in `spec.resourceClaims`")
        if name in seen:
            yield duplicate(here, name)
        seen.add(name)


def _addresses(addresses: list[Object], field: str) -> Iterator[FieldError]:
    """At most one of each family."""
    written = [address.get("ip") or "" for address in addresses]
    for index, text in enumerate(written):
        yield from all_invalid(f"{field}[{index}]", text, formats.address_problems(text, canonical=False))
    if len(written) < 2:
        return
    parsed = [formats.parse_address(text) for text in written]
    if None in parsed:
        bad = parsed.index(None)
        yield internal(field, f"failed to check for dual stack with error:invalid IP[{bad}]: {written[bad]}")
    families = {address.version for address in parsed if address is not None}
    if len(written) > 2 or len(families) < 2 or None in parsed:
        told = [{"IP": text} for text in written]
        yield invalid(field, told, "may specify no more than one IP for each IP family")
