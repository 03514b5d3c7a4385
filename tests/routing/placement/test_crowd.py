"""Which ready endpoints count, each address once, and that a crowd that was mended is one that was made anew."""

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.clusters import an_endpoint
from tests.properties.random_clusters import examples

from zoneward.kube.objects import Endpoint, EndpointIdentity, identity
from zoneward.routing.placement.crowd import Crowd, Member, crowd_of, named
from zoneward.routing.placement.groups import Group, own_group

ALONE = an_endpoint("10.0.0.1", pod="alone")
FIRST = an_endpoint("10.1.0.1", pod="a")
SECOND = an_endpoint("10.1.0.1", pod="b")
UNREADY = an_endpoint("10.1.0.1", pod="0", ready=False)


def nowhere(_: EndpointIdentity) -> None:
    return None


def counted(crowd: Crowd) -> set[int]:
    return {id(member.endpoint) for cell in crowd.ready() for member in cell.members}


def test_endpoints_with_addresses_of_their_own_all_count() -> None:
    crowd = crowd_of([ALONE, FIRST], nowhere)
    assert (crowd.number, crowd.twins) == (2, {})


def test_of_those_that_share_an_address_the_first_by_identity_counts() -> None:
    """The order of the input does not matter; one that is not ready is neither counted nor a twin."""
    for endpoints in permutations((ALONE, FIRST, SECOND, UNREADY)):
        crowd = crowd_of(endpoints, nowhere)
        assert counted(crowd) == {id(ALONE), id(FIRST)}
        assert [(one.endpoint, other.endpoint) for one, other in crowd.twins.items()] == [(SECOND, FIRST)]
        assert (crowd.number, crowd.size) == (2, 4)


def test_when_the_one_that_counts_goes_the_next_by_identity_does() -> None:
    third = an_endpoint("10.1.0.1", pod="c")
    for endpoints in permutations((FIRST, SECOND, third)):
        crowd = Crowd()
        members = {id(each): Member(each, identity(each)) for each in endpoints}
        for member in members.values():
            crowd.add(member)
        crowd.remove(members[id(FIRST)])
        assert counted(crowd) == {id(SECOND)}
        assert [(one.endpoint, other.endpoint) for one, other in crowd.twins.items()] == [(third, SECOND)]


def test_of_several_addresses_only_the_first_is_looked_at() -> None:
    other = replace(SECOND, addresses=("10.0.0.9", "10.1.0.1"))
    assert crowd_of([FIRST, other], nowhere).twins == {}


def test_upstream_keeps_them_apart() -> None:
    crowd = crowd_of([FIRST, SECOND, UNREADY], nowhere, apart=True)
    assert (crowd.number, crowd.twins) == (2, {})


def test_without_endpoints_nobody_counts() -> None:
    crowd = crowd_of([], nowhere)
    assert (crowd.number, crowd.size, crowd.ready(), crowd.rest()) == (0, 0, [], [])


def shape(crowd: Crowd) -> tuple[object, ...]:
    """Everything that a decision can ask, with identities for endpoints."""
    for cell in (*crowd.ready(), *crowd.rest()):
        assert cell.nodeless == sum(1 for member in cell.members if not member.endpoint.node_name)
        assert named([cell]) == (len(cell), tuple(sorted(member.name for member in cell.members)[:3]))
    cells = [
        (cell.zone, cell.before.zones if cell.before else (), cell.ready, [each.identity for each in cell.in_order()])
        for cell in (*crowd.ready(), *crowd.rest())
    ]
    twins = sorted((one.identity, other.identity) for one, other in crowd.twins.items())
    return crowd.number, crowd.size, sorted(cells), twins, crowd.zones(), {group.zones for group in crowd.befores()}


GROUPS: tuple[Group | None, ...] = (None, own_group("a"), own_group("b"))
some = st.tuples(st.integers(0, 9), st.sampled_from("ab"), st.booleans(), st.integers(0, 3), st.sampled_from(GROUPS))


@examples(100)
@given(st.lists(some, max_size=25), st.booleans())
def test_a_crowd_that_was_mended_is_one_that_was_made_anew(
    changes: list[tuple[int, str, bool, int, Group | None]], apart: bool
) -> None:
    """Endpoints come, change and go; two of them may share an address."""
    crowd = Crowd(apart=apart)
    there: dict[int, Member] = {}
    for number, zone, ready, address, before in changes:
        shape(crowd)
        old = there.pop(number, None)
        if old is not None:
            crowd.remove(old)
        if address:
            endpoint: Endpoint = an_endpoint(
                f"10.0.0.{address}", zone, pod=f"pod-{number}", ready=ready, node="n" if number % 2 else None
            )
            there[number] = Member(endpoint, identity(endpoint), before)
            crowd.add(there[number])
    was = {member.identity: member.before for member in there.values()}
    assert shape(crowd) == shape(crowd_of((each.endpoint for each in there.values()), was.get, apart=apart))
