"""Files of all sorts become objects that live as any other do, and what is saved is read again as it was."""

import gzip
import io
import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from zoneward.cli.snapshot import command
from zoneward.kube.input_error import InputError
from zoneward.sample import cluster
from zoneward.sandbox.server.kinds import Kind
from zoneward.sandbox.server.kubectl_tables import table
from zoneward.sandbox.server.persistence import NAMESPACES, load_objects, new_registry, save_objects
from zoneward.sandbox.server.resource_registry import DeleteOptions, Registry, Write
from zoneward.sandbox.server.status_errors import StatusError

Object = dict[str, Any]

ME = Write()
STATUS = Write(subresource="status")


def filled(*files: bytes) -> Registry:
    registry = new_registry()
    load_objects(registry, [(f"file {index}", data) for index, data in enumerate(files, start=1)])
    return registry


def saved(registry: Registry) -> bytes:
    stream = io.BytesIO()
    save_objects(registry, stream)
    return stream.getvalue()


def objects(data: bytes) -> list[Object]:
    """Without their versions."""
    items: list[Object] = json.loads(data)["items"]
    for item in items:
        assert item["metadata"].pop("resourceVersion")
    return items


def names(registry: Registry, resource: str = "leases.coordination.k8s.io") -> list[str]:
    kind = registry.kinds[resource]
    return ["/".join(key) for key, _ in registry.store.records(kind)]


def a_lease(name: str, **metadata: str) -> Object:
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name, **metadata}}
    return lease | {"spec": {"holderIdentity": "me"}}


def dumped(obj: Object) -> bytes:
    return json.dumps(obj).encode()


def a_list(*items: Object, kind: str = "List", api: str = "v1") -> Object:
    return {"apiVersion": api, "kind": kind, "metadata": {"resourceVersion": ""}, "items": list(items)}


def anonymous() -> bytes:
    """A snapshot of the sample, as Zoneward makes them: of each object no more than what is read."""
    result = CliRunner().invoke(command, ["--sample", "--anonymize", "-q"], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout_bytes


THREE = [a_lease(name) for name in "abc"]
BARE = [{"metadata": lease["metadata"], "spec": lease["spec"]} for lease in THREE]
FILES: dict[str, tuple[bytes, ...]] = {
    "a list in YAML": (yaml.safe_dump(a_list(*THREE)).encode(),),
    "lists in a list": (dumped(a_list(THREE[0], a_list(a_list(), THREE[1], a_list(THREE[2])))),),
    "a list of one kind": (dumped(a_list(*BARE, kind="LeaseList", api="coordination.k8s.io/v1")),),
    "several files": (gzip.compress(dumped(THREE[2])), dumped(THREE[1]), dumped(THREE[0])),
    "again and again": (dumped(a_list(*THREE)), dumped(a_list(*THREE))),
}


@pytest.mark.parametrize("form", FILES)
def test_objects_may_be_in_lists_and_in_several_files(form: str) -> None:
    assert names(filled(*FILES[form])) == ["default/a", "default/b", "default/c"]


def test_unknown_kinds_are_counted() -> None:
    other = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "cart"}}
    data = dumped(a_list(other, THREE[0], other))
    assert load_objects(new_registry(), [("file", data)]) == {"apps/v1/Deployment": 2}


def test_missing_namespaces_are_created() -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "known", "labels": {"a": "b"}}}
    document = a_list(a_lease("a", namespace="known"), a_lease("a", namespace="new"), namespace)
    registry = filled(dumped(document))
    assert names(registry, "namespaces") == sorted(f"/{name}" for name in (*NAMESPACES, "known", "new"))
    assert registry.get(registry.kinds["namespaces"], "", "known")["metadata"]["labels"]["a"] == "b"


WRONG: dict[str, tuple[Object, str]] = {
    "metadata: expected": ({"metadata": []}, "metadata: expected an object, got a list"),
    "name": ({"metadata": {"name": "A"}}, "a lowercase RFC 1123 subdomain"),
    "no name": ({"metadata": {}}, "metadata.name: Required value"),
    "generated name": ({"metadata": {"generateName": "a-"}}, "metadata.name: Required value"),
}


@pytest.mark.parametrize("case", WRONG)
def test_first_refused_object_is_reported(case: str) -> None:
    obj, problem = WRONG[case]
    data = dumped(a_lease("fine")) + dumped(a_lease("wrong") | obj)
    with pytest.raises(InputError) as error:
        filled(data)
    assert str(error.value).startswith("file 1: document 2: Lease ")
    assert problem in str(error.value)


FORMS = [pytest.param(cluster().read_bytes, id="sample"), pytest.param(anonymous, id="anonymous")]


@pytest.mark.parametrize("make", FORMS)
def test_saved_objects_round_trip(make: Callable[[], bytes]) -> None:
    first = saved(filled(make()))
    second = saved(filled(first))
    assert objects(second) == objects(first)
    assert len(objects(first)) > 450


MINIMAL = [
    {"apiVersion": kind.api, "kind": kind.kind, "metadata": {"name": "bare"}} for kind in new_registry().kinds.values()
]
ENDING = [
    obj | {"metadata": {"name": "ending", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a.example/b"]}}
    for obj in MINIMAL
]


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(anonymous, id="a snapshot"),
        pytest.param(lambda: dumped(a_list(*MINIMAL)), id="names alone"),
        pytest.param(lambda: dumped(a_list(*ENDING)), id="ending"),
    ],
)
def test_incomplete_object_can_be_read_changed_and_deleted(make: Callable[[], bytes]) -> None:
    registry = filled(make())
    refused, done = set(), 0
    for kind in registry.kinds.values():
        for (namespace, name), _ in list(registry.store.records(kind.stored)):
            for record in everything(registry, kind, namespace, name):
                try:
                    record()
                    done += 1
                except StatusError as refusal:
                    refused.add(refusal.code)
    # What upstream's rules ask for may be missed; nothing else may go wrong.
    assert refused <= {403, 422}
    assert done > 30


def everything(registry: Registry, kind: Kind, namespace: str, name: str) -> list[Callable[[], object]]:
    """That can be done with an object, and leaves it there."""
    return [
        lambda: registry.update(kind, namespace, name, lambda old: old, ME),
        lambda: registry.update(kind, namespace, name, labelled, ME),
        lambda: kind.has_status and registry.update(kind, namespace, name, labelled, STATUS),
        lambda: table(kind, [registry.get(kind, namespace, name)], metadata={}, include="None", now=registry.now),
        lambda: registry.delete(kind, namespace, name, DeleteOptions(dry_run=["All"])),
    ]


def labelled(old: Object) -> Object:
    labels = (old["metadata"].get("labels") or {}) | {"zoneward.example/changed": "yes"}
    return old | {"metadata": old["metadata"] | {"labels": labels}}


def test_terminating_pod_from_a_snapshot_survives_an_update() -> None:
    ending = {"name": "cart", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": ending, "spec": {"nodeName": "node-1"}}
    registry = filled(dumped(pod))
    pods = registry.kinds["pods"]
    assert not registry.update(pods, "default", "cart", labelled, STATUS).is_gone
    assert registry.delete(pods, "default", "cart", DeleteOptions(grace_period_seconds=0)).is_gone
