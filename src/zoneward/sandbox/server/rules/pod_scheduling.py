"""Judging what pods ask of their place: selectors, affinity, spread over the topology, tolerations."""

from collections.abc import Iterator, Mapping

from zoneward.kube import formats
from zoneward.kube.validation import FieldError
from zoneward.sandbox.server.kinds import Object
from zoneward.sandbox.server.rules.pod_errors import all_invalid, duplicate, forbidden, invalid, required, unsupported

_WITH_VALUES = "must be specified when `operator` is 'In' or 'NotIn'"
_WITHOUT_VALUES = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
_NO_OPERATOR = "not a valid selector operator"


def label_errors(labels: Mapping[str, str], field: str) -> Iterator[FieldError]:
    for key, value in labels.items():
        yield from all_invalid(field, key, formats.qualified_name_problems(key))
        yield from all_invalid(field, value, formats.label_value_problems(value))


def toleration_errors(tolerations: list[Object], field: str) -> Iterator[FieldError]:
    for index, toleration in enumerate(tolerations):
        here = f"{field}[{index}]"
        key, operator = toleration.get("key") or "", toleration.get("operator") or ""
        value, effect = toleration.get("value") or "", toleration.get("effect") or ""
        if key:
            yield from all_invalid(f"{here}.key", key, formats.qualified_name_problems(key))
        elif operator != "Exists":
            rule = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            yield invalid(f"{here}.operator", operator, rule)
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            yield invalid(f"{here}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
        if operator in ("Equal", ""):
            if problems := ";".join(formats.label_value_problems(value)):
                yield invalid(f"{here}.operator", value, problems)
        elif operator == "Exists":
            if value:
                yield invalid(f"{here}.operator", value, "value must be empty when `operator` is 'Exists'")
        else:
            # Comparison waits behind a gate; upstream lists it to those who ask for it.
            comparing = ("Lt", "Gt") if operator in ("Lt", "Gt") else ()
            yield unsupported(f"{here}.operator", operator, ("Equal", "Exists", *comparing))
        if effect and effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
            yield unsupported(f"{here}.effect", effect, ("NoSchedule", "PreferNoSchedule", "NoExecute"))


def spread_errors(constraints: list[Object], field: str) -> Iterator[FieldError]:
    """``topologySpreadConstraints``."""
    pairs = [(each.get("topologyKey") or "", each.get("whenUnsatisfiable") or "") for each in constraints]
    for index, constraint in enumerate(constraints):
        here, (key, otherwise) = f"{field}[{index}]", pairs[index]
        if (skew := constraint.get("maxSkew") or 0) <= 0:
            yield invalid(f"{here}.maxSkew", skew, "must be greater than zero")
        if not key:
            yield required(f"{here}.topologyKey", "can not be empty")
        if otherwise not in ("DoNotSchedule", "ScheduleAnyway"):
            yield unsupported(f"{here}.whenUnsatisfiable", otherwise, ("DoNotSchedule", "ScheduleAnyway"))
        if pairs[index] in pairs[index + 1 :]:
            yield duplicate(f"{here}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {otherwise}}}")
        if (domains := constraint.get("minDomains")) is not None:
            if domains <= 0:
                yield invalid(f"{here}.minDomains", domains, "must be greater than zero")
            if otherwise != "DoNotSchedule":
                rule = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {otherwise}"
                yield invalid(f"{here}.minDomains", domains, rule)
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if constraint.get(policy) not in (None, "Honor", "Ignore"):
                yield unsupported(f"{here}.{policy}", constraint[policy], ("Honor", "Ignore"))
        yield from _label_keys(constraint, here)
        yield from _selector(constraint.get("labelSelector"), f"{here}.labelSelector")


def affinity_errors(affinity: Object, field: str) -> Iterator[FieldError]:
    if node := affinity.get("nodeAffinity"):
        yield from _node_affinity(node, f"{field}.nodeAffinity")
    for kind in ("podAffinity", "podAntiAffinity"):
        if pods := affinity.get(kind):
            here = f"{field}.{kind}.requiredDuringSchedulingIgnoredDuringExecution"
            for index, term in enumerate(pods.get("requiredDuringSchedulingIgnoredDuringExecution") or ()):
                yield from _pod_term(term, f"{here}[{index}]")
            here = f"{field}.{kind}.preferredDuringSchedulingIgnoredDuringExecution"
            for index, weighted in enumerate(pods.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
                yield from _weight(weighted, f"{here}[{index}]")
                yield from _pod_term(weighted.get("podAffinityTerm") or {}, f"{here}[{index}].podAffinityTerm")


# --- nodes ------------------------------------------------------------------------------------------------------------


def _node_affinity(affinity: Object, field: str) -> Iterator[FieldError]:
    needed = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if needed is not None:
        here = f"{field}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        terms = needed.get("nodeSelectorTerms") or ()
        if not terms:
            yield required(here, "must have at least one node selector term")
        for index, term in enumerate(terms):
            yield from _node_term(term, f"{here}[{index}]", judges_values=True)
    here = f"{field}.preferredDuringSchedulingIgnoredDuringExecution"
    for index, weighted in enumerate(affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
        yield from _weight(weighted, f"{here}[{index}]")
        yield from _node_term(weighted.get("preference") or {}, f"{here}[{index}].preference", judges_values=False)


def _weight(weighted: Object, field: str) -> Iterator[FieldError]:
    weight = weighted.get("weight") or 0
    if not 1 <= weight <= 100:
        yield invalid(f"{field}.weight", weight, "must be in the range 1-100")


def _node_term(term: Object, field: str, *, judges_values: bool) -> Iterator[FieldError]:
    for index, wanted in enumerate(term.get("matchExpressions") or ()):
        here = f"{field}.matchExpressions[{index}]"
        operator, values, key = wanted.get("operator") or "", wanted.get("values") or (), wanted.get("key") or ""
        if operator in ("Gt", "Lt"):
            if len(values) != 1:
                yield required(f"{here}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
        else:
            yield from _operator(operator, values, here)
        yield from all_invalid(f"{here}.key", key, formats.qualified_name_problems(key))
        if judges_values:
            yield from _values(values, here)
    for index, wanted in enumerate(term.get("matchFields") or ()):
        yield from _node_field(wanted, f"{field}.matchFields[{index}]")


def _node_field(wanted: Object, field: str) -> Iterator[FieldError]:
    operator, values, key = wanted.get("operator") or "", wanted.get("values") or (), wanted.get("key") or ""
    if operator not in ("In", "NotIn"):
        yield invalid(f"{field}.operator", operator, _NO_OPERATOR)
    elif len(values) != 1:
        rule = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield required(f"{field}.values", rule)
    if key != "metadata.name":
        yield invalid(f"{field}.key", key, "not a valid field selector key")
        return
    for index, value in enumerate(values):
        yield from all_invalid(f"{field}.values[{index}]", value, formats.subdomain_problems(value))


# --- pods -------------------------------------------------------------------------------------------------------------


def _pod_term(term: Object, field: str) -> Iterator[FieldError]:
    for kind in ("labelSelector", "namespaceSelector"):
        yield from _selector(term.get(kind), f"{field}.{kind}")
    for name in term.get("namespaces") or ():
        yield from all_invalid(f"{field}.namespace", name, formats.label_problems(name))
    yield from _label_keys(term, field)
    key = term.get("topologyKey") or ""
    if not key:
        yield required(f"{field}.topologyKey", "can not be empty")
    yield from all_invalid(f"{field}.topologyKey", key, formats.qualified_name_problems(key))


def _label_keys(term: Object, field: str) -> Iterator[FieldError]:
    """``matchLabelKeys`` and ``mismatchLabelKeys``: labels of the pod itself that a selector takes over."""
    alike, unlike = term.get("matchLabelKeys") or [], term.get("mismatchLabelKeys") or []
    if term.get("labelSelector") is None:
        for kind, keys in (("matchLabelKeys", alike), ("mismatchLabelKeys", unlike)):
            if keys:
                yield forbidden(f"{field}.{kind}", "must not be specified when labelSelector is not set")
        return
    for kind, keys in (("matchLabelKeys", alike), ("mismatchLabelKeys", unlike)):
        for index, key in enumerate(keys):
            yield from all_invalid(f"{field}.{kind}[{index}]", key, formats.qualified_name_problems(key))
    for index, key in enumerate(alike):
        if key in unlike:
            rule = "exists in both matchLabelKeys and mismatchLabelKeys"
            yield invalid(f"{field}.matchLabelKeys[{index}]", key, rule)


def _selector(selector: Object | None, field: str) -> Iterator[FieldError]:
    if not selector:
        return
    yield from label_errors(selector.get("matchLabels") or {}, f"{field}.matchLabels")
    for index, wanted in enumerate(selector.get("matchExpressions") or ()):
        here = f"{field}.matchExpressions[{index}]"
        key, values = wanted.get("key") or "", wanted.get("values") or ()
        yield from _operator(wanted.get("operator") or "", values, here)
        yield from all_invalid(f"{here}.key", key, formats.qualified_name_problems(key))
        yield from _values(values, here)


def _operator(operator: str, values: list[str] | tuple[()], field: str) -> Iterator[FieldError]:
    if operator in ("In", "NotIn"):
        if not values:
            yield required(f"{field}.values", _WITH_VALUES)
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            yield forbidden(f"{field}.values", _WITHOUT_VALUES)
    else:
        yield invalid(f"{field}.operator", operator, _NO_OPERATOR)


def _values(values: list[str] | tuple[()], field: str) -> Iterator[FieldError]:
    for index, value in enumerate(values):
        yield from all_invalid(f"{field}.values[{index}]", value, formats.label_value_problems(value))
