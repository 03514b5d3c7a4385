"""An API server that stores slices without their hints: an admission policy removes the first endpoint's.

That is what its feature gate did before 1.33, for the field of all endpoints.
"""

from typing import Final

from e2e.control_plane import ControlPlane
from e2e.controllers import ZonewardController
from e2e.pods import LABELS, a_shop
from tests.builders.objects import a_service
from tests.contract.api import Object

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


def slices(plane: ControlPlane) -> list[Object]:
    listed: list[Object] = plane.api().get(f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices")["items"]
    return listed


def hinted(slice_: Object) -> list[bool]:
    return [bool(endpoint.get("hints")) for endpoint in slice_["endpoints"]]


def as_stored(plane: ControlPlane, slice_: Object) -> Object:
    """What the server would store of a slice whose endpoints all have hints, by a dry run."""
    hints = {"forZones": [{"name": "a"}]}
    sent = slice_ | {"endpoints": [endpoint | {"hints": hints} for endpoint in slice_["endpoints"]]}
    path = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices/{slice_['metadata']['name']}"
    return plane.api().request("PUT", path, sent, query={"dryRun": "All"})


def programmed(plane: ControlPlane, service: Object) -> tuple[str, str]:
    conditions = plane.api().read(service)["status"].get("conditions") or ()
    matching = [
        condition for condition in conditions if condition["type"] == "zoneward.dev/TrafficDistributionProgrammed"
    ]
    return (matching[0]["status"], matching[0]["reason"]) if matching else ("", "")


def test_dropped_hints_are_reported_and_not_written_again() -> None:
    with ControlPlane() as plane:
        api = plane.api()
        api.create_all(a_shop(NAMESPACE, 6))
        for path, object_ in policy().items():
            api.request("POST", path, object_)
        service = a_service("cart", namespace=NAMESPACE, selector=LABELS, distribution="PreferSameZone")
        probe = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "addressType": "IPv4",
            "metadata": {"name": "probe", "namespace": NAMESPACE},
            "endpoints": [{"addresses": ["10.9.9.9"]}],
        }
        api.create(probe)
        # A policy takes effect a moment after it was created.
        plane.wait_until(lambda: not any(hinted(as_stored(plane, api.read(probe)))), what="the policy")
        api.delete(probe)
        api.create(service)
        with ZonewardController(plane) as controller:
            plane.wait_until(lambda: programmed(plane, service) == ("False", "HintsNotStored"), what="the condition")
            plane.wait_until(lambda: not any(hinted(slices(plane)[0])), what="slices without hints")
            assert "zoneward_controller_hints_not_stored_services 1.0" in controller.get("/metrics")[1]
            events = api.get(f"/api/v1/namespaces/{NAMESPACE}/events")["items"]
            assert "TrafficDistributionNotStored" in [event["reason"] for event in events]
            # Any change of the Service is a sync.
            api.patch(service, {"metadata": {"labels": {"another": "sync"}}})
            plane.wait_until(
                lambda: slices(plane)[0]["metadata"]["labels"].get("another") == "sync", what="another write"
            )
            assert not any(hinted(slices(plane)[0]))
            for path in policy():
                api.request("DELETE", f"{path}/no-hints")
            plane.wait_until(lambda: all(hinted(as_stored(plane, slices(plane)[0]))), what="no policy")
