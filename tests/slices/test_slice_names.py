"""Names of new slices: the same for the same slice, free, and short enough. The slice that carries weights of zones."""

import dataclasses
from typing import Final

import pytest
from msgspec.structs import replace
from tests.builders.structs import DUAL_STACK, a_service, nodes_in, pods_in
from tests.clusters import Cluster, decided_weights, written

from zoneward.kube import names
from zoneward.kube.formats import subdomain_problems
from zoneward.kube.objects import EndpointSlice, Service
from zoneward.kube.zone_weights import ZoneWeights, format_zone_weights, parse_zone_weights
from zoneward.routing.configuration import Configuration
from zoneward.routing.selection.endpoint_selection import CURRENT
from zoneward.slices.endpoints import PortKey
from zoneward.slices.plan import ServicePlan
from zoneward.slices.reconcile import slice_name

PORTS: PortKey = (("http", 8080, "TCP", ""),)


def name(
    service: Service | None = None,
    *,
    family: str = "IPv4",
    ports: PortKey = PORTS,
    taken: tuple[str, ...] = (),
    group: str = "",
    after: str = "",
) -> str:
    return slice_name(
        service or a_service(), address_type=family, ports=ports, taken=(taken,), group=group, after=after
    )


def called(text: str) -> Service:
    service = a_service()
    return replace(service, metadata=replace(service.metadata, name=text))


def test_the_same_slice_has_the_same_name_wherever_it_is_made() -> None:
    """A repeated create meets the slice it made before."""
    assert name() == name() == "cart-7abea35745"


@pytest.mark.parametrize(
    "other",
    [
        name(a_service(uid="uid-of-another")),
        name(family="IPv6"),
        name(ports=()),
        name(ports=(("http", 9090, "TCP", ""),)),
        name(group="zone-a"),
        name(replace(a_service(), metadata=replace(a_service().metadata, namespace="other"))),
        name(taken=(name(),)),
    ],
    ids=["UID", "family", "no ports", "ports", "group", "namespace", "number"],
)
def test_all_that_tells_slices_apart_is_in_the_hash(other: str) -> None:
    assert other != name()


def test_a_taken_name_gives_way_to_the_next_free_one() -> None:
    taken: list[str] = []
    for _ in range(5):
        taken.append(name(taken=tuple(taken)))
    assert len(set(taken)) == 5
    assert name(taken=tuple(taken[1:])) == taken[0]


def test_a_long_name_is_cut_to_what_an_object_may_be_called() -> None:
    one, other = name(called("x" * 252 + "y")), name(called("x" * 253))
    assert len(one) == len(other) == 253
    assert one != other


@pytest.mark.parametrize("text", ["x", "cart", "x" * 63, "x" * 253, "x" * 241 + ".-." + "x" * 9])
def test_a_name_is_one_that_an_object_may_have(text: str) -> None:
    assert list(subdomain_problems(name(called(text)))) == []


# --- names after another one ------------------------------------------------------------------------------------------


def test_a_name_comes_after_another_one_by_the_first_number_that_does() -> None:
    free: list[str] = []
    for _ in range(20):
        free.append(name(taken=tuple(free)))
    middle = sorted(free)[10]
    next_name = name(after=middle)
    assert next_name > middle
    assert next_name == next(candidate for candidate in free if candidate > middle)
    assert name(after="cart-0") == name()
    assert name(after=middle, taken=(next_name,)) == next(
        candidate for candidate in free if candidate > middle and candidate != next_name
    )


def test_where_no_name_comes_after_another_one_it_is_as_without_it() -> None:
    assert name(after="cart-x") == name()
    assert name(after="cart-x", taken=(name(),)) == name(taken=(name(),))


# --- weights of zones -------------------------------------------------------------------------------------------------

SMALL_SLICES: Final = Configuration(max_endpoints_per_slice=4)


def weights(share: float = 0.75, **counts: int) -> ZoneWeights:
    """Zone a keeps this share, and sends the rest to zone b."""
    return ZoneWeights({"a": {"a": share, "b": round(1 - share, 4)}, "b": {"b": 1.0}}, counts or {"a": 8, "b": 4})


def a_cluster(**numbers: int) -> Cluster:
    nodes, pods = nodes_in({"a": 4, "b": 4}), pods_in(numbers or {"a": 8, "b": 4})
    return Cluster(service=a_service(), nodes=nodes, pods=pods, configuration=SMALL_SLICES)


def planned(cluster: Cluster, given: ZoneWeights | None) -> ServicePlan:
    with decided_weights(lambda _counts: given):
        return cluster.plan(trigger_time="now")


def weighted(cluster: Cluster, given: ZoneWeights | None = None) -> Cluster:
    """The cluster once its slices have weights."""
    return cluster.after(planned(cluster, given or weights()))


def weights_on(cluster: Cluster) -> dict[str, ZoneWeights | None]:
    """The weights on each slice that carries an annotation for them; None where it is invalid."""
    return {
        slice_.metadata.name: parse_zone_weights((slice_.metadata.annotations or {})[names.ZONE_WEIGHTS_ANNOTATION])
        for slice_ in cluster.slices
        if names.ZONE_WEIGHTS_ANNOTATION in (slice_.metadata.annotations or {})
    }


def with_annotation(cluster: Cluster, name_: str, text: str) -> Cluster:
    def annotated(slice_: EndpointSlice) -> EndpointSlice:
        annotations = {**(slice_.metadata.annotations or {}), names.ZONE_WEIGHTS_ANNOTATION: text}
        return replace(slice_, metadata=replace(slice_.metadata, annotations=annotations))

    return cluster.with_(
        slices=tuple(annotated(slice_) if slice_.metadata.name == name_ else slice_ for slice_ in cluster.slices)
    )


def slice_names(cluster: Cluster) -> list[str]:
    return sorted(slice_.metadata.name for slice_ in cluster.slices)


def test_the_first_slice_by_name_carries_the_weights_and_no_other() -> None:
    cluster = weighted(a_cluster())
    assert len(cluster.slices) == 3
    assert weights_on(cluster) == {slice_names(cluster)[0]: weights()}
    assert not written(planned(cluster, weights()))


def test_weights_come_onto_slices_that_are_there_with_one_write_and_go_with_one() -> None:
    before = a_cluster().settled()
    plan = planned(before, weights())
    (update,) = written(plan)
    assert update.metadata.name == slice_names(before)[0]
    assert (update.metadata.annotations or {})[names.TRIGGER_TIME_ANNOTATION] == "now"
    after = before.after(plan)
    plan = planned(after, None)
    assert len(written(plan)) == 1
    assert weights_on(after.after(plan)) == {}


@pytest.mark.parametrize(
    ("now", "stays"),
    [
        (weights(0.75), True),
        (weights(0.78), False),
        (weights(0.75, a=9, b=3), True),
        (weights(0.75, a=10, b=4), False),
        (weights(0.75, a=8, b=4, c=2), False),
    ],
)
def test_weights_stay_while_they_are_as_good_as_those_of_the_decision(now: ZoneWeights, stays: bool) -> None:
    cluster = weighted(a_cluster())
    plan = planned(cluster, now)
    assert len(written(plan)) == (0 if stays else 1)
    assert [*weights_on(cluster.after(plan)).values()] == [weights() if stays else now]


def without_first_pod(cluster: Cluster, name_: str) -> Cluster:
    """The cluster without the Pod of the first endpoint of a slice."""
    (slice_,) = (slice_ for slice_ in cluster.slices if slice_.metadata.name == name_)
    gone = (slice_.endpoints or ())[0].target_ref
    assert gone is not None
    return cluster.with_(pods=tuple(pod for pod in cluster.pods if pod.metadata.name != gone.name))


def test_a_slice_that_is_written_anyway_gets_the_weights_of_the_moment_if_it_carries_any() -> None:
    cluster = weighted(a_cluster())
    (carrier,) = weights_on(cluster)
    now = weights(0.76, a=7, b=4)
    for name_, after in ((carrier, {carrier: now}), (slice_names(cluster)[-1], weights_on(cluster))):
        fewer = without_first_pod(cluster, name_)
        plan = planned(fewer, now)
        assert [slice_.metadata.name for slice_ in written(plan)] == [name_]
        assert weights_on(fewer.after(plan)) == after


def test_weights_that_are_invalid_or_on_a_second_slice_are_replaced() -> None:
    cluster = weighted(a_cluster())
    (carrier,) = weights_on(cluster)
    second = format_zone_weights(weights(0.5)) or ""
    for name_, text in ((carrier, "nonsense"), (carrier, ""), (carrier, "{}"), (slice_names(cluster)[1], second)):
        wrong = with_annotation(cluster, name_, text)
        plan = planned(wrong, weights())
        assert len(written(plan)) == 1
        assert weights_on(wrong.after(plan)) == {carrier: weights()}


def test_new_slices_come_after_the_one_that_carries_the_weights() -> None:
    """Else the weights would move, with two writes more."""
    for index in range(20):
        cluster = a_cluster()
        cluster = cluster.with_(service=replace(cluster.service, metadata=a_service(uid=f"uid-{index}").metadata))
        cluster = weighted(cluster)
        more = cluster.with_(pods=pods_in({"a": 20, "b": 4}))
        plan = planned(more, weights())
        (family,) = plan.families
        assert len(family.changes.create) == 3
        assert not family.changes.update
        assert [*weights_on(more.after(plan))] == [*weights_on(cluster)]


def test_weights_move_to_the_next_slice_when_theirs_goes() -> None:
    cluster = weighted(a_cluster())
    (carrier,) = weights_on(cluster)
    left = cluster.with_(slices=tuple(slice_ for slice_ in cluster.slices if slice_.metadata.name != carrier))
    remaining = {one.target_ref.name for slice_ in left.slices for one in slice_.endpoints or () if one.target_ref}
    left = left.with_(pods=tuple(pod for pod in left.pods if pod.metadata.name in remaining))
    plan = planned(left, weights())
    assert len(written(plan)) == 1
    assert [*weights_on(left.after(plan))] == slice_names(left)[:1]


def test_without_endpoints_no_slice_carries_weights() -> None:
    cluster = weighted(a_cluster()).with_(pods=())
    after = cluster.after(planned(cluster, weights()))
    assert len(after.slices) == 1
    assert weights_on(after) == {}
    assert not written(planned(after, weights()))


def test_each_address_family_has_its_own_weights() -> None:
    service = a_service(families=DUAL_STACK)
    cluster = Cluster(
        service=service, nodes=nodes_in({"a": 4, "b": 4}), pods=pods_in({"a": 8, "b": 4}, dual_stack=True)
    )
    after = weighted(cluster)
    assert len(weights_on(after)) == 2 == len({slice_.address_type for slice_ in after.slices})


def test_weights_that_no_annotation_can_hold_are_not_written() -> None:
    zones = [f"zone-{index}" for index in range(33)]
    too_many = ZoneWeights({zone: {zone: 1.0} for zone in zones}, dict.fromkeys(zones, 1))
    cluster = a_cluster()
    assert weights_on(cluster.after(planned(cluster, too_many))) == {}


def test_as_upstream_weights_are_neither_written_nor_kept() -> None:
    cluster = weighted(a_cluster())
    as_upstream = cluster.with_(configuration=cluster.configuration.as_upstream())
    assert weights_on(as_upstream.after(planned(as_upstream, weights()))) == {}


def test_predicted_traffic_follows_the_weights_on_the_slices() -> None:
    (family,) = planned(a_cluster(), weights()).families
    assert family.traffic is not None
    assert family.traffic.in_zone == pytest.approx((0.75 + 1) / 2)
    current = dataclasses.replace(family.cluster_state, consumer=CURRENT)
    other = dataclasses.replace(family, cluster_state=current).traffic
    assert other is not None
    assert other.in_zone == pytest.approx(0.5 * 8 / 12 + 0.5 * 4 / 12)
