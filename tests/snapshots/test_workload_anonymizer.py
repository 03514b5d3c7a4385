"""Nothing of workloads, autoscalers and volumes is left but what is said to stay."""

import json
from itertools import count

import msgspec
import pytest
from tests.snapshots.test_anonymizer import SECRET, filled

from zoneward.kube.workload_objects import (
    WORKLOAD_KINDS,
    ClaimTemplate,
    ClaimTemplateMeta,
    PersistentVolumeClaim,
    StatefulSet,
    StatefulSetSpec,
    WorkloadMeta,
    WorkloadObject,
)
from zoneward.snapshots.anonymizer import anonymized
from zoneward.snapshots.cluster_snapshot import Snapshot


def shared(*objects: WorkloadObject) -> tuple[WorkloadObject, ...]:
    return anonymized(Snapshot.of(objects)).workload_objects


@pytest.mark.parametrize("kind", WORKLOAD_KINDS.values(), ids=lambda kind: kind.__name__)
def test_no_field_gives_anything_away_and_none_is_lost(kind: type[WorkloadObject]) -> None:
    (before,) = [filled(kind, count(1))]
    (after,) = shared(before)
    assert SECRET not in msgspec.json.encode(after).decode()
    kept = json.loads(msgspec.json.encode(before))
    kept["metadata"].pop("resourceVersion")
    if kind.__name__ == "PersistentVolume":
        kept["metadata"].pop("namespace")
    assert paths(json.loads(msgspec.json.encode(after))) == paths(kept)


def paths(value: object, at: str = "") -> set[str]:
    """The path of each field, whatever labels are called."""
    if isinstance(value, dict):
        free = at.endswith(("labels", "Labels", "nodeSelector"))
        return {path for key, each in value.items() for path in paths(each, f"{at}.{'*' if free else key}")}
    if isinstance(value, list):
        return {path for each in value for path in paths(each, f"{at}[]")}
    return {at}


def test_the_claims_of_a_stateful_set_are_still_its_claims() -> None:
    templates = (ClaimTemplate(metadata=ClaimTemplateMeta(name="data")),)
    meta = WorkloadMeta(name="db", namespace="shop")
    own = StatefulSet(metadata=meta, spec=StatefulSetSpec(replicas=2, volume_claim_templates=templates))
    claims = [
        PersistentVolumeClaim(metadata=WorkloadMeta(name=f"data-db-{each}", namespace="shop")) for each in range(2)
    ]
    after, *bound = shared(own, *claims)
    assert isinstance(after, StatefulSet)
    (template,) = after.spec.volume_claim_templates or ()
    stem = f"{template.metadata.name}-{after.metadata.name}"
    assert [each.metadata.name for each in bound] == [f"{stem}-0", f"{stem}-1"]
