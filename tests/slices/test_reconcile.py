"""The fewest changes of slices, and their names. Upstream's own cases are in `tests.vectors.test_slices_packing`."""

from collections.abc import Iterable, Sequence

import pytest
from msgspec.structs import replace
from tests.builders.structs import UID, a_service, a_slice, an_endpoint

from zoneward.kube import names
from zoneward.kube.objects import Endpoint, EndpointPort, EndpointSlice, OwnerReference, Service, identity
from zoneward.kube.zone_weights import ZoneWeights
from zoneward.slices.desired import SliceTemplate, desired_slices, slice_labels
from zoneward.slices.endpoints import port_key
from zoneward.slices.existing import is_owned
from zoneward.slices.reconcile import SliceChanges, finalize, have_moved, reconcile

AUTO = "Hints/ProportionalZoneCPU"
HTTP = (EndpointPort(name="http", protocol="TCP", port=8080),)
NOW = "2026-11-21T09:00:00Z"


def some(*numbers: int) -> list[Endpoint]:
    return [an_endpoint(f"10.0.0.{octet}") for octet in numbers]


def reconciled(
    existing: Sequence[EndpointSlice],
    wanted: Iterable[Endpoint],
    *,
    service: Service | None = None,
    in_force: str | None = None,
    trigger_time: str | None = None,
) -> SliceChanges:
    """Reconcile one group of endpoints, three a slice; without any, there is no group."""
    service = service if service is not None else a_service()
    template = SliceTemplate(
        service=service,
        address_type="IPv4",
        labels=slice_labels(service, manager=names.MANAGER),
        in_force=in_force,
        max_endpoints=3,
    )
    desired = desired_slices(template, None, ports=HTTP)
    desired.endpoints.update((identity(endpoint), endpoint) for endpoint in wanted)
    changes = reconcile(template, {(port_key(HTTP), ()): desired} if desired.endpoints else {}, existing)
    by_name = {slice_.metadata.name: slice_ for slice_ in existing}
    return finalize(changes, by_name, service=service, taken=(by_name,), trigger_time=trigger_time)


def addresses(slices: Iterable[EndpointSlice]) -> list[list[int]]:
    """The last number of each address, slice by slice."""
    return [
        [int((endpoint.addresses or ("",))[0].rsplit(".", 1)[1]) for endpoint in slice_.endpoints or ()]
        for slice_ in slices
    ]


def fates(changes: SliceChanges) -> tuple[list[list[int]], dict[str, list[int]], list[str], list[str]]:
    """Created and updated slices by content, unchanged and deleted ones by name."""
    updated = dict(zip((slice_.metadata.name for slice_ in changes.update), addresses(changes.update), strict=True))
    return (
        addresses(changes.create),
        updated,
        sorted(slice_.metadata.name for slice_ in changes.unchanged),
        sorted(slice_.metadata.name for slice_ in changes.delete),
    )


def test_what_is_in_force_is_remembered_on_every_slice() -> None:
    existing = [a_slice("s1", *some(1)), a_slice("s2", *some(2), in_force=AUTO)]
    changes = reconciled(existing, some(1, 2), in_force=AUTO)
    assert fates(changes) == ([], {"s1": [1]}, ["s2"], [])
    assert (changes.update[0].metadata.annotations or {}) == {names.APPROACH_ANNOTATION: AUTO}


def test_what_is_no_longer_in_force_is_forgotten() -> None:
    changes = reconciled([a_slice("s1", *some(1), in_force=AUTO)], some(1))
    assert [slice_.metadata.annotations for slice_ in changes.update] == [None]


def test_other_annotations_and_all_other_metadata_stay() -> None:
    given = a_slice("s1", *some(1))
    metadata = replace(given.metadata, annotations={"example.com/x": "y"}, resource_version="7", uid="u")
    (updated,) = reconciled([replace(given, metadata=metadata)], some(2)).update
    assert updated.metadata == metadata


@pytest.mark.parametrize(
    ("owner", "uid", "expected"),
    [(UID, UID, True), ("other", UID, False), (None, UID, True), ("other", "", True)],
    ids=["its own", "another's", "nobody's", "a Service from a file"],
)
def test_a_slice_belongs_to_the_service_unless_it_says_otherwise(owner: str | None, uid: str, expected: bool) -> None:
    assert is_owned(a_slice("s1", owner=owner), a_service(uid=uid)) == expected


def test_an_owner_that_does_not_control_is_none() -> None:
    metadata = replace(a_slice("s1").metadata, owner_references=(OwnerReference(kind="Service", uid="other"),))
    assert is_owned(replace(a_slice("s1"), metadata=metadata), a_service())


def test_of_several_empty_slices_one_stays_unwritten_and_the_others_go() -> None:
    (placeholder,) = reconciled([], []).create
    other = replace(placeholder, metadata=replace(placeholder.metadata, name="zzz"))
    assert fates(reconciled([placeholder, other], [])) == ([], {}, [placeholder.metadata.name], ["zzz"])


def test_a_service_from_a_file_owns_nothing() -> None:
    """Without a UID an owner reference would be refused."""
    (created,) = reconciled([], some(1), service=a_service(uid="")).create
    assert created.metadata.owner_references is None


def test_the_trigger_time_stands_on_what_is_written_and_on_nothing_else() -> None:
    existing = [a_slice("s1", *some(1)), a_slice("s2", *some(2, 3))]
    changes = reconciled(existing, some(1, 2, 3, 4, 5, 6, 7), trigger_time=NOW)
    assert fates(changes) == ([[4, 5, 6]], {"s2": [2, 3, 7]}, ["s1"], [])
    for slice_ in (*changes.create, *changes.update):
        assert (slice_.metadata.annotations or {})[names.TRIGGER_TIME_ANNOTATION] == NOW
    assert changes.unchanged == (existing[0],)


@pytest.mark.parametrize(
    ("shares", "moved"),
    [
        ({"a": {"a": 1.0}, "b": {"a": 0.25, "b": 0.75}}, False),
        ({"a": {"a": 1.0}, "b": {"a": 0.27, "b": 0.73}}, False),
        ({"a": {"a": 1.0}, "b": {"a": 0.2701, "b": 0.7299}}, True),
        ({"a": {"a": 0.98, "b": 0.02}, "b": {"a": 0.25, "b": 0.75}}, False),
        ({"a": {"a": 0.97, "b": 0.03}, "b": {"a": 0.25, "b": 0.75}}, True),
        ({"a": {"a": 1.0}}, True),
        ({"a": {"a": 1.0}, "b": {"a": 0.25, "b": 0.75}, "c": {"c": 1.0}}, True),
    ],
)
def test_weights_have_moved_when_a_share_differs_by_more_than_two_points(
    shares: dict[str, dict[str, float]], moved: bool
) -> None:
    before, after = ZoneWeights({"a": {"a": 1.0}, "b": {"a": 0.25, "b": 0.75}}, {}), ZoneWeights(shares, {"a": 9})
    assert have_moved(before, after) is moved
    assert have_moved(after, before) is moved
