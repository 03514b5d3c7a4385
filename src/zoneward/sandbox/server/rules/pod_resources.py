"""What pods ask for: judging requests and limits, and the class of service that follows from them."""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Final

from zoneward.kube import formats, quantity
from zoneward.kube.validation import FieldError
from zoneward.sandbox.server.kinds import Object
from zoneward.sandbox.server.rules.pod_defaults import requested_by_containers
from zoneward.sandbox.server.rules.pod_errors import all_invalid, duplicate, forbidden, invalid, required, unsupported

_OF_CONTAINERS: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_OF_QUOTAS: Final = frozenset(
    [
        "pods",
        "services",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "storage",
        "requests.cpu",
        "requests.memory",
        "requests.storage",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
        "services.nodeports",
        "services.loadbalancers",
    ]
)
_HUGE: Final = "hugepages-"


def quality_of_service(spec: Object) -> str:
    """``status.qosClass``: whether CPU and memory are guaranteed, for the pod as a whole or each of its containers."""
    if resources := spec.get("resources") or {}:
        every = [resources]
    else:
        containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
        every = [container.get("resources") or {} for container in containers]
    requests: dict[str, Fraction] = {}
    limits: dict[str, Fraction] = {}
    is_guaranteed = True
    for resources in every:
        _add_up(resources.get("requests"), requests)
        is_guaranteed &= len(_add_up(resources.get("limits"), limits)) == 2
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if is_guaranteed and requests == limits else "Burstable"


def _add_up(amounts: Mapping[str, str] | None, total: dict[str, Fraction]) -> list[str]:
    """The names that have an amount."""
    found = []
    for name in ("cpu", "memory"):
        amount = quantity.parse((amounts or {}).get(name, "0"))
        if amount > 0:
            found.append(name)
            total[name] = total.get(name, Fraction(0)) + amount
    return found


def resource_errors(resources: Object, field: str) -> Iterator[FieldError]:
    """``resources`` of a container. Claims are not judged."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name, limit in limits.items():
        yield from _amount(name, limit, f"{field}.limits[{name}]")
    for name, request in requests.items():
        yield from _amount(name, request, f"{field}.requests[{name}]")
        can_exceed = _is_native(name) and not name.startswith(_HUGE)
        if name in limits:
            asked, most = quantity.parse(request), quantity.parse(limits[name])
            if can_exceed and asked > most:
                rule = f"must be less than or equal to {name} limit of {limits[name]}"
                yield invalid(f"{field}.requests", request, rule)
            elif not can_exceed and asked != most:
                yield invalid(f"{field}.requests", request, f"must be equal to {name} limit of {limits[name]}")
        elif not can_exceed:
            yield required(f"{field}.limits", "Limit must be set for non overcommitable resources")
    names = {*limits, *requests}
    if any(name.startswith(_HUGE) for name in names) and not names & {"cpu", "memory"}:
        yield forbidden(field, "HugePages require cpu or memory")


def pod_resource_errors(spec: Object, field: str) -> Iterator[FieldError]:
    """``resources`` of a whole pod, and how they suit those of its containers."""
    resources = spec.get("resources")
    if not resources:
        return
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    yield from resource_errors({"limits": limits, "requests": requests}, field)
    for name, together in requested_by_containers(spec).items():
        asked = requests.get(name, "0")
        if quantity.parse(together) > quantity.parse(asked):
            rule = f"must be greater than or equal to aggregate container requests of {together}"
            yield invalid(f"{field}.requests[{name}]", asked, rule)
    for index, container in enumerate(spec.get("containers") or ()):
        for name, limit in ((container.get("resources") or {}).get("limits") or {}).items():
            if name in limits and quantity.parse(limit) > quantity.parse(limits[name]):
                rule = f"must be less than or equal to pod limits of {limits[name]}"
                yield invalid(f"{field}.containers[{index}][{name}].limits", limit, rule)


def resize_policy_errors(policies: list[Object], field: str, restart_policy: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, policy in enumerate(policies):
        name, reaction = policy.get("resourceName") or "", policy.get("restartPolicy") or ""
        if name in seen:
            yield duplicate(f"{field}[{index}]", name)
        seen.add(name)
        for value, supported in (
            (name, ("cpu", "memory")),
            (reaction, ("NotRequired", "RestartContainer")),
        ):
            if not value:
                yield required(field)
            elif value not in supported:
                yield unsupported(field, value, supported)
        if restart_policy == "Never" and reaction != "NotRequired":
            yield invalid(field, reaction, "must be 'NotRequired' when `restartPolicy` is 'Never'")


# --- one amount -------------------------------------------------------------------------------------------------------


def _amount(name: str, written: str, field: str) -> Iterator[FieldError]:
    yield from _name(name, field)
    amount = quantity.parse(written)
    if amount < 0:
        yield invalid(field, written, "must be greater than or equal to 0")
    if (_is_extended(name) or name in _OF_QUOTAS) and amount.denominator != 1:
        yield invalid(field, written, "must be an integer")
    if name.startswith(_HUGE):
        page = _page(name)
        if page is not None and (amount < 0 or not page or amount % page):
            yield invalid(field, written, f"{written} is not positive integer multiple of {name}")


def _name(name: str, field: str) -> Iterator[FieldError]:
    problems = list(formats.qualified_name_problems(name))
    yield from all_invalid(field, name, problems)
    is_of_container = name in _OF_CONTAINERS or name.startswith(_HUGE)
    if "/" not in name:
        if not problems and not is_of_container and name not in _OF_QUOTAS:
            yield invalid(field, name, "must be a standard resource type or fully qualified")
        if not is_of_container:
            yield invalid(field, name, "must be a standard resource for containers")
    elif not _is_native(name) and not _is_extended(name):
        yield invalid(field, name, "doesn't follow extended resource name standard")


def _is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def _is_extended(name: str) -> bool:
    if _is_native(name) or name.startswith("requests."):
        return False
    return not any(formats.qualified_name_problems(f"requests.{name}"))


def _page(name: str) -> Fraction | None:
    try:
        return quantity.parse(name.removeprefix(_HUGE))
    except ValueError:
        return None
