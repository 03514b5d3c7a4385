"""Rules for pods. Three tables next to this file hold what a v1.36.3 server stored, or why it did not.

They were asked for with ``dryRun=All`` in an empty namespace; ``podrules-1`` was a node in zone ``z1``, region ``r``.
"""

from collections.abc import Iterable, Iterator
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from zoneward.sandbox.server.rules.pod import SELECTABLE, PodRules, name_problems, pod_fields
from zoneward.sandbox.server.rules.pod_binding import bind

from zoneward.kube.validation import FieldError
from zoneward.sandbox.server.kinds import Kind, Object
from zoneward.sandbox.server.schema import decoded_as
from zoneward.sandbox.server.status_errors import StatusError

RULES: Final = PodRules()
POD: Final = Kind(kind="Pod", plural="pods", has_status=True, rules=RULES, cells=lambda _thing, _now: [])
NOW: Final = "2026-01-01T00:00:00Z"
NOT_JUDGED: Final = {
    "annotation seccomp": "old annotations",
    "privileged": "this server forbids it",
}
"""Known differences: what the rules let pass, by the name of the case."""


class Cluster:
    """One node, in zone ``z1``."""

    now = datetime(2026, 1, 1, tzinfo=UTC)

    def find(self, plural: str, namespace: str, name: str) -> Object | None:
        labels = {"topology.kubernetes.io/zone": "z1", "topology.kubernetes.io/region": "r", "rack": "7"}
        known = {("nodes", "", "podrules-1"): {"metadata": {"labels": labels}}}
        return known.get((plural, namespace, name))


def read(name: str) -> dict[str, Any]:
    table: dict[str, Any] = msgspec.json.decode(Path(__file__).with_name(name).read_bytes())
    return table


CREATIONS: Final = read("pod_creations.json")
UPDATES: Final = read("pod_updates.json")
STATUSES: Final = read("pod_statuses.json")
OLD: Final = {**UPDATES.pop(""), **STATUSES.pop("")}

QUANTITIES: Final[dict[str | float, str]] = {
    "1000m": "1",
    "1e3": "1e3",
    "1024Ki": "1Mi",
    "1024Mi": "1Gi",
    "0.5": "500m",
    "0.1Gi": "107374182400m",
    "1.5Gi": "1536Mi",
    "100e-3": "100e-3",
    "1500000000n": "1500m",
    "0.0000000001": "1m",
    "1E": "1E",
    "12e6": "12e6",
    "1000Mi": "1000Mi",
    "1048576": "1048576",
    "1000000": "1M",
    "129M": "129M",
    ".5": "500m",
    "-0": "0",
    "0Mi": "0",
    "0.5Mi": "512Ki",
    "1.25Ki": "1280",
    "0.3Ki": "307200m",
    "3e-1": "300e-3",
    "1e-4": "1e-3",
    "0.0001": "1m",
    "1u": "1m",
    "2.5E": "2500P",
    "1e18": "1e18",
    "1100k": "1100k",
    "1024k": "1024k",
    "0.15k": "150",
    "0.5Ki": "512",
    3: "3",
    0.25: "250m",
    "1e1": "10",
    "5e2": "500",
    "1.5e3": "1500",
    "1Ei": "1Ei",
    "8Ei": "9223372036854775807",
    "1.0": "1",
}
IMAGES: Final = {
    "a:latest": "Always",
    "a:1": "IfNotPresent",
    "a": "Always",
    "a/b:c@sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb": "IfNotPresent",
    "a@sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb": "IfNotPresent",
    "localhost:5000/a": "Always",
    "UP": "IfNotPresent",
    "a:": "IfNotPresent",
    "a:b:c": "IfNotPresent",
    "a/b/c:v1.0": "IfNotPresent",
    "a:latest@sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb": "Always",
    "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb": "IfNotPresent",
}


def told(errors: Iterable[FieldError]) -> list[list[str]]:
    """As the tables have them."""
    return [[error.type, error.field, error.message] for error in errors]


def read_in(thing: Object, old: Object | None = None) -> Object:
    """As the schema leaves it, with the namespace that all have."""
    new, problems = decoded_as(deepcopy(thing) | {"apiVersion": "v1", "kind": "Pod"}, POD, old=old)
    assert not problems
    return new | {"metadata": {"namespace": "podrules"} | new["metadata"]}


def created(pod: Object) -> Object:
    new = read_in(pod)
    RULES.default(new)
    RULES.prepare_create(new, Cluster())
    return new


def pod(**spec: Any) -> Object:
    whole = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "x"}]} | spec}
    return created(whole)


# --- new pods ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [case for case in CREATIONS if "spec" in CREATIONS[case]])
def test_a_good_pod_gets_the_defaults_of_a_real_server(case: str) -> None:
    new = created(CREATIONS[case]["pod"])
    assert new["spec"] == CREATIONS[case]["spec"]
    assert told([*RULES.metadata_errors(new), *RULES.validate_create(new)]) == []


@pytest.mark.parametrize("case", [case for case in CREATIONS if "spec" in CREATIONS[case]])
def test_a_new_pod_has_the_status_of_a_real_server(case: str) -> None:
    status = CREATIONS[case]["status"]
    for condition in status.get("conditions", ()):
        condition["lastTransitionTime"] = NOW
    assert created(CREATIONS[case]["pod"])["status"] == status


@pytest.mark.parametrize("case", [case for case in CREATIONS if "causes" in CREATIONS[case]])
def test_a_bad_pod_is_refused_in_the_words_of_a_real_server(case: str) -> None:
    new = created(CREATIONS[case]["pod"])
    causes = told([*RULES.metadata_errors(new), *RULES.validate_create(new)])
    if case in NOT_JUDGED:
        assert causes != CREATIONS[case]["causes"]
        assert all(cause in CREATIONS[case]["causes"] for cause in causes)
    else:
        assert causes == CREATIONS[case]["causes"]


@pytest.mark.parametrize("case", [case for case in CREATIONS if "refusal" in CREATIONS[case]])
def test_admission_refuses_as_that_of_a_real_server(case: str) -> None:
    with pytest.raises(StatusError) as refused:
        created(CREATIONS[case]["pod"])
    assert [refused.value.code, refused.value.message] == CREATIONS[case]["refusal"]


@pytest.mark.parametrize(("written", "stored"), QUANTITIES.items())
def test_quantities_are_spelt_as_by_a_real_server(written: str | float, stored: str) -> None:
    resources = {"requests": {"memory": written}}
    new = pod(containers=[{"name": "c", "image": "x", "resources": resources}])
    assert new["spec"]["containers"][0]["resources"] == {"requests": {"memory": stored}}


@pytest.mark.parametrize(("image", "policy"), IMAGES.items())
def test_images_are_pulled_as_at_a_real_server(image: str, policy: str) -> None:
    assert pod(containers=[{"name": "c", "image": image}])["spec"]["containers"][0]["imagePullPolicy"] == policy


def test_defaults_change_nothing_the_second_time() -> None:
    for case in CREATIONS.values():
        if "spec" in case:
            once = created(case["pod"])
            twice = deepcopy(once)
            RULES.default(twice)
            assert twice == once


def test_a_pod_that_is_bound_at_birth_gets_zone_and_region_of_its_node() -> None:
    asked = {"metadata": {"name": "a", "labels": {"x": "y", "topology.kubernetes.io/zone": "mine"}}}
    new = created(asked | {"spec": {"nodeName": "podrules-1", "containers": []}})
    expected = {"x": "y", "topology.kubernetes.io/zone": "z1", "topology.kubernetes.io/region": "r"}
    assert new["metadata"]["labels"] == expected


# --- changed pods -----------------------------------------------------------------------------------------------------


def updated(case: Object) -> tuple[Object, Object]:
    old = OLD[case["old"]]
    changes = deepcopy(case["set"])
    spec = {field: each for field, each in deepcopy(old["spec"]).items() if field not in case["unset"]}
    metadata = deepcopy(old["metadata"]) | changes.get("metadata", {})
    new = read_in({"metadata": metadata, "spec": spec | changes.get("spec", {}), "status": {}})
    before = deepcopy(old)
    RULES.default(new, old)
    RULES.prepare_update(new, old, Cluster())
    assert old == before
    return new, old


@pytest.mark.parametrize("case", UPDATES)
def test_an_update_is_refused_or_not_as_by_a_real_server(case: str) -> None:
    new, old = updated(UPDATES[case])
    causes = told([*RULES.metadata_update_errors(new, old), *RULES.validate_update(new, old)])
    assert causes == UPDATES[case].get("causes", [])


@pytest.mark.parametrize("case", [case for case in UPDATES if "causes" not in UPDATES[case]])
def test_generation_grows_when_it_does_at_a_real_server(case: str) -> None:
    new, old = updated(UPDATES[case])
    assert RULES.is_new_generation(new, old) == (UPDATES[case]["generation"] > old["metadata"]["generation"])


def test_an_update_keeps_the_status() -> None:
    new, old = updated(UPDATES["plain: label added"])
    assert new["status"] == old["status"]


def test_what_is_shared_with_the_old_pod_is_not_changed() -> None:
    old = pod(containers=[{"name": "c", "image": "x", "ports": [{"containerPort": 80}]}])
    before = deepcopy(old)
    new = old | {"spec": old["spec"] | {"hostNetwork": True}}
    RULES.default(new, old)
    assert new["spec"]["containers"][0]["ports"][0]["hostPort"] == 80
    assert old == before


# --- status -----------------------------------------------------------------------------------------------------------


def with_status(case: Object) -> tuple[Object, Object]:
    old = OLD[case["old"]]
    new = deepcopy(old) | {"status": deepcopy(case["status"]), "spec": deepcopy(case.get("spec", old["spec"]))}
    new["metadata"] |= case.get("meta", {})
    new = read_in(new)
    before = deepcopy(old)
    RULES.default(new, old)
    RULES.prepare_status(new, old, Cluster())
    assert old == before
    return new, old


@pytest.mark.parametrize("case", [case for case in STATUSES if "causes" in STATUSES[case]["answer"]])
def test_a_bad_status_is_refused_in_the_words_of_a_real_server(case: str) -> None:
    new, old = with_status(STATUSES[case])
    assert told(RULES.validate_status(new, old)) == STATUSES[case]["answer"]["causes"]


@pytest.mark.parametrize("case", [case for case in STATUSES if "status" in STATUSES[case]["answer"]])
def test_a_good_status_is_stored_as_by_a_real_server(case: str) -> None:
    new, old = with_status(STATUSES[case])
    answer = STATUSES[case]["answer"]
    assert told(RULES.validate_status(new, old)) == []
    assert new["status"] == answer["status"]
    assert new["spec"] is old["spec"]
    if "metadata" in answer:
        assert new["metadata"] == answer["metadata"]


# --- the rest ---------------------------------------------------------------------------------------------------------


def test_the_fields_of_selectors_are_those_of_a_real_server() -> None:
    thing = pod(nodeName="n", hostNetwork=True, serviceAccountName="s")
    thing["status"] |= {"podIP": "10.1.1.1", "podIPs": [{"ip": "10.1.1.1"}], "nominatedNodeName": "m"}
    fields = pod_fields(thing)
    assert fields == {
        "spec.nodeName": "n",
        "spec.host": "n",
        "spec.restartPolicy": "Always",
        "spec.schedulerName": "default-scheduler",
        "spec.serviceAccountName": "s",
        "spec.hostNetwork": "true",
        "status.phase": "Pending",
        "status.podIP": "10.1.1.1",
        "status.podIPs": "",
        "status.nominatedNodeName": "m",
    }
    assert fields.keys() == SELECTABLE


@pytest.mark.parametrize(
    ("spec", "phase", "asked", "seconds"),
    [
        ({"nodeName": "n"}, "Running", None, 30),
        ({"nodeName": "n"}, "Running", 5, 5),
        ({"nodeName": "n"}, "Running", 0, 0),
        ({"nodeName": "n"}, "Running", -5, 1),
        ({"nodeName": "n", "terminationGracePeriodSeconds": 0}, "Running", None, 0),
        ({"nodeName": "n"}, "Failed", None, 0),
        ({"nodeName": "n"}, "Succeeded", 5, 0),
        ({}, "Pending", None, 0),
        ({}, "Pending", 5, 0),
    ],
)
def test_a_pod_on_a_node_has_time_to_end(spec: Object, phase: str, asked: int | None, seconds: int) -> None:
    thing = pod(**spec) | {"status": {"phase": phase}}
    assert RULES.grace(thing, asked) == seconds


def test_a_prefix_may_end_in_a_dash() -> None:
    assert list(name_problems("a-", is_prefix=True)) == []
    assert len(list(name_problems("a-"))) == 1
    assert list(name_problems("a" * 254)) == ["must be no more than 253 characters"]


# --- binding ----------------------------------------------------------------------------------------------------------


def binding(name: str = "podrules-1", *, kind: str = "Node", **metadata: Any) -> Object:
    return {"metadata": metadata, "target": {"kind": kind, "name": name}}


def test_binding_gives_a_pod_its_node_with_zone_labels_and_a_condition() -> None:
    old = pod()
    before = deepcopy(old)
    new = bind(
        old, binding(name="podrules-1") | {"metadata": {"labels": {"x": "y"}, "annotations": {"q": "r"}}}, Cluster()
    )
    assert new["spec"] == old["spec"] | {"nodeName": "podrules-1"}
    zone = {"topology.kubernetes.io/zone": "z1", "topology.kubernetes.io/region": "r"}
    assert new["metadata"] == {
        "name": "a",
        "namespace": "podrules",
        "labels": {"x": "y"} | zone,
        "annotations": {"q": "r"},
    }
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": NOW}
    assert new["status"]["conditions"] == [scheduled]
    assert old == before


def refused_bindings() -> Iterator[tuple[Object, Object, int, str]]:
    conflict = 'Operation cannot be fulfilled on pods/binding "a": pod a '
    on_node, gated, ending = pod(nodeName="n"), pod(schedulingGates=[{"name": "g"}]), pod()
    ending["metadata"]["deletionTimestamp"] = NOW
    yield on_node, binding(), 409, f'{conflict}is already assigned to node "n"'
    yield gated, binding(), 409, f"{conflict}has non-empty .spec.schedulingGates"
    yield ending, binding(), 409, f"{conflict}is being deleted, cannot be assigned to a host"
    yield pod(), binding(""), 500, "target.name: Required value"
    unsupported = 'target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>"'
    yield pod(), binding(kind="Pod"), 500, unsupported
    yield pod(), binding() | {"metadata": {"name": "b"}}, 400, "name in URL does not match name in Binding object"


@pytest.mark.parametrize(("thing", "asked", "code", "message"), list(refused_bindings()))
def test_a_binding_is_refused_in_the_words_of_a_real_server(
    thing: Object, asked: Object, code: int, message: str
) -> None:
    with pytest.raises(StatusError) as refused:
        bind(thing, asked, Cluster())
    assert (refused.value.code, refused.value.message) == (code, message)
