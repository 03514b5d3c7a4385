"""Which ready endpoints count, each address once, and that an updated index is the same as a new one."""

from collections.abc import Callable, Iterable
from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.builders.structs import an_endpoint
from tests.properties.random_clusters import examples

from zoneward.kube.objects import Endpoint, EndpointIdentity, identity
from zoneward.routing.endpoint_index import EndpointIndex, IndexedEndpoint, count_and_first_names
from zoneward.routing.zone_groups import ZoneGroup, own_group

ALONE = an_endpoint("10.0.0.1", pod="alone")
FIRST = an_endpoint("10.1.0.1", pod="a")
SECOND = an_endpoint("10.1.0.1", pod="b")
UNREADY = an_endpoint("10.1.0.1", pod="0", ready=False)


def nowhere(_: EndpointIdentity) -> None:
    return None


def index_endpoints(
    endpoints: Iterable[Endpoint],
    previous_group: Callable[[EndpointIdentity], ZoneGroup | None] = nowhere,
    *,
    merge_addresses: bool = True,
) -> EndpointIndex:
    endpoint_index = EndpointIndex(merge_addresses=merge_addresses)
    for endpoint in endpoints:
        key = identity(endpoint)
        endpoint_index.add(IndexedEndpoint(endpoint, key, previous_group(key)))
    return endpoint_index


def counted(endpoint_index: EndpointIndex) -> set[int]:
    return {id(member.endpoint) for bucket in endpoint_index.ready_buckets() for member in bucket.members}


def test_of_those_that_share_an_address_the_first_by_identity_counts() -> None:
    """The order of the input does not matter; one that is not ready neither counts nor shares."""
    for endpoints in permutations((ALONE, FIRST, SECOND, UNREADY)):
        endpoint_index = index_endpoints(endpoints)
        assert counted(endpoint_index) == {id(ALONE), id(FIRST)}
        assert [(one.endpoint, other.endpoint) for one, other in endpoint_index.shared_address.items()] == [
            (SECOND, FIRST)
        ]
        assert (endpoint_index.ready_count, endpoint_index.total_count) == (2, 4)


def test_when_the_one_that_counts_goes_the_next_by_identity_does() -> None:
    third = an_endpoint("10.1.0.1", pod="c")
    for endpoints in permutations((FIRST, SECOND, third)):
        endpoint_index = EndpointIndex()
        members = {id(endpoint): IndexedEndpoint(endpoint, identity(endpoint)) for endpoint in endpoints}
        for member in members.values():
            endpoint_index.add(member)
        endpoint_index.remove(members[id(FIRST)])
        assert counted(endpoint_index) == {id(SECOND)}
        assert [(one.endpoint, other.endpoint) for one, other in endpoint_index.shared_address.items()] == [
            (third, SECOND)
        ]


def test_of_several_addresses_only_the_first_is_looked_at() -> None:
    other = replace(SECOND, addresses=("10.0.0.9", "10.1.0.1"))
    assert index_endpoints([FIRST, other]).shared_address == {}


def test_upstream_keeps_them_apart() -> None:
    endpoint_index = index_endpoints([FIRST, SECOND, UNREADY], merge_addresses=False)
    assert (endpoint_index.ready_count, endpoint_index.shared_address) == (2, {})


def shape(endpoint_index: EndpointIndex) -> tuple[object, ...]:
    """Everything that a decision can ask, with identities for endpoints."""
    for bucket in (*endpoint_index.ready_buckets(), *endpoint_index.unready_buckets()):
        assert bucket.without_node == sum(1 for member in bucket.members if not member.endpoint.node_name)
        assert count_and_first_names([bucket]) == (
            len(bucket),
            tuple(sorted(member.name for member in bucket.members)[:3]),
        )
    buckets = [
        (
            bucket.zone,
            bucket.previous_group.zones if bucket.previous_group else (),
            bucket.ready,
            [member.identity for member in bucket.in_order()],
        )
        for bucket in (*endpoint_index.ready_buckets(), *endpoint_index.unready_buckets())
    ]
    twins = sorted((one.identity, other.identity) for one, other in endpoint_index.shared_address.items())
    return (
        endpoint_index.ready_count,
        endpoint_index.total_count,
        sorted(buckets),
        twins,
        endpoint_index.zones(),
        {group.zones for group in endpoint_index.previous_groups()},
    )


GROUPS: tuple[ZoneGroup | None, ...] = (None, own_group("a"), own_group("b"))
change = st.tuples(st.integers(0, 9), st.sampled_from("ab"), st.booleans(), st.integers(0, 3), st.sampled_from(GROUPS))


@examples(50)
@given(st.lists(change, max_size=25), st.booleans())
def test_an_updated_index_is_the_same_as_a_new_one(
    changes: list[tuple[int, str, bool, int, ZoneGroup | None]], merge_addresses: bool
) -> None:
    endpoint_index = EndpointIndex(merge_addresses=merge_addresses)
    current: dict[int, IndexedEndpoint] = {}
    for index, zone, ready, address, before in changes:
        shape(endpoint_index)
        old = current.pop(index, None)
        if old is not None:
            endpoint_index.remove(old)
        if address:
            endpoint: Endpoint = an_endpoint(
                f"10.0.0.{address}", zone, pod=f"pod-{index}", ready=ready, node="n" if index % 2 else None
            )
            current[index] = IndexedEndpoint(endpoint, identity(endpoint), before)
            endpoint_index.add(current[index])
    was = {member.identity: member.previous_group for member in current.values()}
    assert shape(endpoint_index) == shape(
        index_endpoints((member.endpoint for member in current.values()), was.get, merge_addresses=merge_addresses)
    )
