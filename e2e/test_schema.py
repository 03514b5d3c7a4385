"""The fields that the sandbox knows are those that a real server publishes, with their types and merge keys."""

import json
from typing import Final

from e2e.control_plane import ControlPlane
from tests.contract.api import Object
from tests.deploy.manifests import ROOT

SCHEMA: Final = ROOT / "src/zoneward/sandbox/server/schema.json"
GROUPS: Final = ("api/v1", "apis/discovery.k8s.io/v1", "apis/events.k8s.io/v1", "apis/coordination.k8s.io/v1")
OWN_NAMES: Final = {
    "NewerEvent": "io.k8s.api.events.v1.Event",
    "NewerEventSeries": "io.k8s.api.events.v1.EventSeries",
    "Event": "io.k8s.api.core.v1.Event",
    "EventSeries": "io.k8s.api.core.v1.EventSeries",
    "EndpointPort": "io.k8s.api.discovery.v1.EndpointPort",
    "EndpointsPort": "io.k8s.api.core.v1.EndpointPort",
}
"""Structs of which two groups have one of the same name."""
NUMBERS: Final = dict.fromkeys(("int32", "int64"), "integer")
TYPES: Final = {"string": "string", "boolean": "boolean", "[": "array", "{": "object"} | NUMBERS


def test_structs_have_the_published_fields(control_plane: ControlPlane) -> None:
    published: Object = {}
    for group in GROUPS:
        published |= control_plane.api().get(f"/openapi/v3/{group}")["components"]["schemas"]
    for name, fields in json.loads(SCHEMA.read_text()).items():
        full = OWN_NAMES.get(name) or next(
            published_name for published_name in published if published_name.endswith(f".v1.{name}")
        )
        properties = published[full]["properties"]
        assert fields.keys() == properties.keys(), name
        for field, text in fields.items():
            written, *words = text.split(" ")
            shown = f"{name}.{field}"
            if expected := TYPES.get(written) or TYPES.get(written[0]):
                assert properties[field].get("type") == expected, shown
            merge = next((word for word in words if word.startswith("merge")), "")
            strategy = properties[field].get("x-kubernetes-patch-strategy", "")
            assert bool(merge) == ("merge" in strategy.split(",")), shown
            assert merge.partition("=")[2] == properties[field].get("x-kubernetes-patch-merge-key", ""), shown
