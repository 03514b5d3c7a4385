"""Which ready endpoints count: each address once, whoever stands behind it and in whatever order they come."""

from itertools import permutations

from msgspec.structs import replace
from tests.clusters import an_endpoint

from zoneward.routing.addresses import distinct

ALONE = an_endpoint("10.0.0.1", pod="alone")
FIRST = an_endpoint("10.1.0.1", pod="a")
SECOND = an_endpoint("10.1.0.1", pod="b")
UNREADY = an_endpoint("10.1.0.1", pod="0", ready=False)


def test_endpoints_with_addresses_of_their_own_all_count() -> None:
    assert distinct([ALONE, FIRST], apart=False) == ([0, 1], {})


def test_of_those_that_share_an_address_the_first_by_identity_counts() -> None:
    """The order of the input does not matter; one that is not ready is neither counted nor a twin."""
    for endpoints in permutations((ALONE, FIRST, SECOND, UNREADY)):
        counted, twins = distinct(endpoints, apart=False)
        assert {id(endpoints[number]) for number in counted} == {id(ALONE), id(FIRST)}
        assert counted == sorted(counted)
        assert {id(endpoints[one]): id(endpoints[other]) for one, other in twins.items()} == {id(SECOND): id(FIRST)}


def test_of_several_addresses_only_the_first_is_looked_at() -> None:
    other = replace(SECOND, addresses=("10.0.0.9", "10.1.0.1"))
    assert distinct([FIRST, other], apart=False) == ([0, 1], {})


def test_upstream_keeps_them_apart() -> None:
    assert distinct([FIRST, SECOND, UNREADY], apart=True) == ([0, 1], {})


def test_without_endpoints_nobody_counts() -> None:
    assert distinct([], apart=False) == ([], {})
