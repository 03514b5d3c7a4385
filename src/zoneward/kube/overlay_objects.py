"""The admission policies of the overlay, as an API server takes them.

They are the one source of ``deploy/overlay``, of the chart and of ``zoneward plan -o overlay``.

`zoneward.slices.overlay` says what the ConfigMap holds that the mutating policy reads, and has the policy in Python.

The policies bound what an error costs. With ``failurePolicy: Ignore`` a write of a slice never fails because of an
expression, and a slice whose expression fails stays as the built-in controller wrote it. An endpoint gets its hint by a
separate patch, so that fields that these policies do not know survive.
"""

from typing import Any, Final

from zoneward.kube import names

VERSION: Final = "1"
"""Of the mutating policy. Another version may read other entries."""
VERSION_ANNOTATION: Final = "zoneward.dev/overlay-version"
OVERLAY: Final = names.OVERLAY_CONFIG_MAP
OWN_ZONE: Final = "zoneward-own-zone"
GUARD: Final = "zoneward-overlay-guard"
CONTROLLER: Final = "zoneward-controller"
"""The name of the controller's ServiceAccount."""
API: Final = "admissionregistration.k8s.io/v1"

# At most eight names of zones, which are label values. The API server would refuse a slice with others.
_ZONE: Final = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_HEAD: Final = "^(zones|zones-and-nodes|nodes|none|remove)( [A-Za-z0-9./-]{1,100})?$"
_ZONES: Final = f"^{_ZONE}(,{_ZONE}){{0,7}}$"


def overlay_policy() -> list[dict[str, Any]]:
    """The mutating policy that sets hints by the ConfigMap ``zoneward-overlay``, and its binding."""
    key = "(variables.service + '.' + e.addresses[0].replace(':', '_'))"
    entry = f"variables.entries[{key}]"
    zones = (
        f"({key} in variables.entries && {entry}.matches('{_ZONES}') ? {entry}.split(',') : [e.zone])"
        ".map(zone, Object.endpoints.hints.forZones{name: zone})"
    )
    nodes = "[Object.endpoints.hints.forNodes{name: e.nodeName}]"
    policy = _policy(OVERLAY)
    policy["metadata"]["annotations"] = {VERSION_ANNOTATION: VERSION}
    policy["spec"] |= {
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "variables": [
            _variable("service", f"object.metadata.?labels[?'{names.SERVICE_NAME_LABEL}'].orValue('')"),
            _variable("entries", "params.?data.orValue({})"),
            _variable("head", "variables.entries[?(variables.service + '.' + object.addressType)].orValue('')"),
            _variable("hints", f"variables.head.matches('{_HEAD}') ? variables.head.split(' ')[0] : ''"),
            _variable("endpoints", _endpoints("object")),
            _variable(
                # Never half of the hints: a proxy ignores all hints while one endpoint has none.
                "sets",
                "variables.hints in ['zones', 'zones-and-nodes']"
                " ? variables.endpoints.all(e, e.?zone.orValue('') != '')"
                " : variables.hints == 'nodes' && variables.endpoints.all(e, e.?nodeName.orValue('') != '')",
            ),
            _variable(
                # A Service that leaves the overlay loses its hints with a write that changes no endpoint.
                "removes",
                "variables.hints == 'remove'"
                f" ? request.operation == 'UPDATE' && variables.endpoints == {_endpoints('oldObject')}"
                " : variables.hints in ['zones', 'zones-and-nodes', 'nodes', 'none'] && !variables.sets",
            ),
        ],
        "mutations": [
            _patch(
                "variables.sets"
                " ? variables.endpoints.transformList(i, e, JSONPatch{op: 'add',"
                " path: '/endpoints/' + string(i) + '/hints',"
                " value: variables.hints == 'nodes'"
                f" ? Object.endpoints.hints{{forNodes: {nodes}}}"
                " : variables.hints == 'zones' || e.?nodeName.orValue('') == ''"
                f" ? Object.endpoints.hints{{forZones: {zones}}}"
                f" : Object.endpoints.hints{{forZones: {zones}, forNodes: {nodes}}}}})"
                " : variables.removes"
                " ? variables.endpoints.transformList(i, e, has(e.hints),"
                " JSONPatch{op: 'remove', path: '/endpoints/' + string(i) + '/hints'})"
                " : []"
            )
        ],
    }
    binding = _binding(OVERLAY)
    # Without a namespace: the one of the slice, so that nobody's ConfigMap affects another namespace.
    binding["spec"]["paramRef"] = {"name": OVERLAY, "parameterNotFoundAction": "Allow"}
    return [policy, binding]


def own_zone_policy() -> list[dict[str, Any]]:
    """A policy without parameters, and its binding: where the built-in controller gives hints for zones to some of the
    endpoints of a slice, the others serve their own zone, ready or not.
    """
    policy = _policy(OWN_ZONE)
    policy["spec"] |= {
        "variables": [
            _variable("endpoints", _endpoints("object")),
            _variable(
                "completes",
                "variables.endpoints.exists(e, e.?hints.?forZones.orValue([]).size() > 0)"
                " && variables.endpoints.all(e, e.?zone.orValue('') != '')",
            ),
            _variable("nodes", "variables.endpoints.exists(e, e.?hints.?forNodes.orValue([]).size() > 0)"),
        ],
        "mutations": [
            _patch(
                "variables.completes"
                " ? variables.endpoints.transformList(i, e, !has(e.hints), JSONPatch{op: 'add',"
                " path: '/endpoints/' + string(i) + '/hints',"
                " value: variables.nodes && e.?nodeName.orValue('') != ''"
                " ? Object.endpoints.hints{forZones: [Object.endpoints.hints.forZones{name: e.zone}],"
                " forNodes: [Object.endpoints.hints.forNodes{name: e.nodeName}]}"
                " : Object.endpoints.hints{forZones: [Object.endpoints.hints.forZones{name: e.zone}]}})"
                " : []"
            )
        ],
    }
    return [policy, _binding(OWN_ZONE)]


def guard_policies(namespace: str) -> list[dict[str, Any]]:
    """Policies that hold the controller, in this namespace, to what it needs, and keep tenants from its ConfigMaps."""
    user = f"system:serviceaccount:{namespace}:{CONTROLLER}"
    is_controller = {"name": "is-the-controller", "expression": f"request.userInfo.username == '{user}'"}
    # When a collection is deleted, the request names none of its objects.
    is_parameters = f"(request.operation == 'DELETE' ? oldObject.metadata.name : request.name) == '{OVERLAY}'"
    config_maps = _guard(
        f"{GUARD}-parameters",
        "",
        ["configmaps"],
        ["CREATE", "UPDATE", "DELETE"],
        conditions=[
            {
                "name": "is-it-or-by-the-controller",
                "expression": f"{is_parameters} || request.userInfo.username == '{user}'",
            },
        ],
        validations=[
            (
                is_parameters,
                f"the controller writes no ConfigMap but {OVERLAY}",
            ),
            (
                # Kubernetes itself deletes it with its namespace, and writes it again to store it in another form.
                (
                    f"request.userInfo.username == '{user}'"
                    " || authorizer.group('*').resource('*').check('*').allowed()"
                    " || request.userInfo.username.startsWith('system:serviceaccount:kube-system:')"
                ),
                f"only Zoneward's controller and cluster administrators write the ConfigMap {OVERLAY}",
            ),
            (
                # Cheap enough for half a MiB; the mutating policy looks at the zones of each endpoint again.
                (
                    f"request.userInfo.username == '{user}' || request.operation == 'DELETE' || !has(object.data)"
                    " || object.data.all(key, key.endsWith('.IPv4') || key.endsWith('.IPv6')"
                    f" ? object.data[key].matches('{_HEAD}')"
                    " : object.data[key].matches('^[-A-Za-z0-9_.,]+$') && object.data[key].split(',').size() <= 8)"
                ),
                "expected entries as SERVICE.IPv4: zones ..., or SERVICE.ADDRESS: up to 8 zones separated by commas",
            ),
        ],
    )
    endpoints, old = "variables.endpoints", "variables.old"
    fields = ("addresses", "conditions", "deprecatedTopology", "hostname", "nodeName", "targetRef", "zone")
    same = " && ".join(f"e.?{field} == {old}[i].?{field}" for field in fields)
    slices = _guard(
        f"{GUARD}-slices",
        "discovery.k8s.io",
        ["endpointslices"],
        ["UPDATE"],
        conditions=[is_controller],
        validations=[
            (
                (
                    "object.metadata.?labels == oldObject.metadata.?labels"
                    " && object.metadata.?annotations == oldObject.metadata.?annotations"
                    " && object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences"
                    " && object.metadata.?finalizers == oldObject.metadata.?finalizers"
                    " && object.addressType == oldObject.addressType && object.?ports == oldObject.?ports"
                    f" && {endpoints}.size() == {old}.size() && {endpoints}.all(i, e, {same})"
                ),
                "the controller changes nothing in an EndpointSlice but hints",
            ),
        ],
    )
    slices[0]["spec"]["variables"] = [
        _variable("endpoints", _endpoints("object")),
        _variable("old", _endpoints("oldObject")),
    ]
    return [*config_maps, *slices]


# --- parts ------------------------------------------------------------------------------------------------------------


def _endpoints(slice_: str) -> str:
    """The endpoints of a slice. An API server has null for those of an empty one."""
    return f"({slice_}.?endpoints.orValue(null) == null ? [] : {slice_}.endpoints)"


def _metadata(name: str) -> dict[str, Any]:
    return {"name": name, "labels": {"app.kubernetes.io/name": CONTROLLER}}


def _policy(name: str) -> dict[str, Any]:
    """A mutating policy of the built-in controller's slices."""
    return {
        "apiVersion": API,
        "kind": "MutatingAdmissionPolicy",
        "metadata": _metadata(name),
        "spec": {
            "failurePolicy": "Ignore",
            "reinvocationPolicy": "Never",
            "matchConstraints": {
                "objectSelector": {"matchLabels": {names.MANAGED_BY_LABEL: names.BUILT_IN_MANAGER}},
                "resourceRules": [
                    {
                        "apiGroups": ["discovery.k8s.io"],
                        "apiVersions": ["v1"],
                        "resources": ["endpointslices"],
                        "operations": ["CREATE", "UPDATE"],
                    }
                ],
            },
        },
    }


def _binding(name: str) -> dict[str, Any]:
    return {
        "apiVersion": API,
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": _metadata(name),
        "spec": {"policyName": name},
    }


def _guard(
    name: str,
    group: str,
    resources: list[str],
    operations: list[str],
    *,
    conditions: list[dict[str, str]],
    validations: list[tuple[str, str]],
) -> list[dict[str, Any]]:
    """A validating policy and its binding."""
    policy = {
        "apiVersion": API,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": _metadata(name),
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    {"apiGroups": [group], "apiVersions": ["v1"], "resources": resources, "operations": operations}
                ]
            },
            "matchConditions": conditions,
            "validations": [{"expression": expression, "message": message} for expression, message in validations],
        },
    }
    binding = {
        "apiVersion": API,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": _metadata(name),
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    return [policy, binding]


def _variable(name: str, expression: str) -> dict[str, str]:
    return {"name": name, "expression": expression}


def _patch(expression: str) -> dict[str, Any]:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}
