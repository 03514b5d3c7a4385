"""An API server that drops hints, as one without the feature gate did before 1.33: here an admission policy removes
those of the first endpoint."""

from typing import Final

from e2e.control_plane import ControlPlane
from e2e.controllers import ZonewardController
from e2e.pods import LABELS, Shop, a_shop
from tests.builders.objects import a_service, a_slice
from tests.contract.api import Object

from zoneward.kube.names import PROGRAMMED_CONDITION

NAMESPACE: Final = "dropped"
REMOVED: Final = """
has(object.endpoints) && size(object.endpoints) > 0 && has(object.endpoints[0].hints)
  ? [JSONPatch{op: "remove", path: "/endpoints/0/hints"}] : []
"""
REGISTRATION: Final = "admissionregistration.k8s.io/v1"


def policy() -> dict[str, Object]:
    """A policy and its binding, by their paths."""
    rule = {
        "apiGroups": ["discovery.k8s.io"],
        "apiVersions": ["v1"],
        "resources": ["endpointslices"],
        "operations": ["CREATE", "UPDATE"],
    }
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": REMOVED}}],
        "reinvocationPolicy": "Never",
        "failurePolicy": "Fail",
    }
    named = {"apiVersion": REGISTRATION, "metadata": {"name": "no-hints"}}
    binding = {"policyName": "no-hints"}
    return {
        f"/apis/{REGISTRATION}/mutatingadmissionpolicies": named | {"kind": "MutatingAdmissionPolicy", "spec": spec},
        f"/apis/{REGISTRATION}/mutatingadmissionpolicybindings": named
        | {"kind": "MutatingAdmissionPolicyBinding", "spec": binding},
    }


def hinted(slice_: Object) -> list[bool]:
    return [bool(endpoint.get("hints")) for endpoint in slice_["endpoints"]]


def as_stored(plane: ControlPlane, slice_: Object) -> Object:
    """What the server would store of a slice whose endpoints all have hints, by a dry run."""
    hints = {"forZones": [{"name": "a"}]}
    sent = slice_ | {"endpoints": [endpoint | {"hints": hints} for endpoint in slice_["endpoints"]]}
    path = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices/{slice_['metadata']['name']}"
    return plane.api().request("PUT", path, sent, query={"dryRun": "All"})


def test_dropped_hints_are_reported_and_not_written_again() -> None:
    with ControlPlane() as plane:
        api = plane.api()
        shop = Shop(api, NAMESPACE)
        api.create_all(a_shop(NAMESPACE, 6))
        for path, object_ in policy().items():
            api.request("POST", path, object_)
        service = a_service("cart", namespace=NAMESPACE, selector=LABELS, distribution="PreferSameZone")
        probe = a_slice("probe", service="probe", addresses=["10.9.9.9"], namespace=NAMESPACE)
        api.create(probe)
        # A policy takes effect a moment after it was created.
        plane.wait_until(lambda: not any(hinted(as_stored(plane, api.read(probe)))), what="the policy")
        api.delete(probe)
        api.create(service)
        with ZonewardController(plane) as controller:
            plane.wait_until(
                lambda: shop.conditions("cart").get(PROGRAMMED_CONDITION) == "HintsNotStored", what="the condition"
            )
            plane.wait_until(lambda: not any(hinted(shop.slices()[0])), what="slices without hints")
            assert "zoneward_controller_hints_not_stored_services 1.0" in controller.get("/metrics")[1]
            events = shop.items("/api/v1/{}/events")
            assert "TrafficDistributionNotStored" in [event["reason"] for event in events]
            # Any change of the Service is a sync.
            api.patch(service, {"metadata": {"labels": {"another": "sync"}}})
            plane.wait_until(lambda: "another" in shop.slices()[0]["metadata"]["labels"], what="another write")
            assert not any(hinted(shop.slices()[0]))
            for path in policy():
                api.request("DELETE", f"{path}/no-hints")
            plane.wait_until(lambda: all(hinted(as_stored(plane, shop.slices()[0]))), what="no policy")
