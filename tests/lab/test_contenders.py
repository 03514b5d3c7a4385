"""Who takes part: names, parameters and sweeps as people write them, and what is said of those that are misspelt."""

import dataclasses
from collections.abc import Sequence
from fractions import Fraction
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.random_clusters import examples

from zoneward.kube.input_error import InputError
from zoneward.lab.contenders import (
    ALGORITHMS,
    OVERLOAD,
    OVERLOAD_LIMIT,
    PARAMETERS,
    PER_SLICE,
    STARTING,
    Contender,
    CustomAlgorithm,
    parse_contenders,
)
from zoneward.routing.algorithms.heuristics import LOCAL_KEP_TOOL, SUBSETTING_ALGORITHMS, same_zone

SIX = ("random", "local", "local-kep-tool", "local-shared", "local-weighted", "local-opt")
"""Those of the proposal: its five, one of them as the prose and as the tool has it."""
ALL_THREE = (STARTING, OVERLOAD, PER_SLICE)
HINTED = ("ProportionalZoneCPU", "Balanced", "PreferSameZone")
HAVING = {
    "random": (PER_SLICE,),
    "local": ALL_THREE,
    "local-kep-tool": ALL_THREE,
    "local-shared": ALL_THREE,
    "local-weighted": (STARTING, PER_SLICE),
    "local-opt": (STARTING, PER_SLICE),
    "ProportionalZoneCPU": ALL_THREE,
    "Balanced": (OVERLOAD_LIMIT, PER_SLICE),
    "PreferSameZone": (PER_SLICE,),
    "cluster-wide": (PER_SLICE,),
}
"""Which parameters each algorithm has."""
OWN = CustomAlgorithm(name="mine", rule=same_zone)


def only(*written: str) -> Contender:
    (one,) = parse_contenders(written)
    return one


def labels(
    written: Sequence[str], sweep: dict[str, Sequence[float | str]] | None = None, own: CustomAlgorithm | None = None
) -> list[str]:
    return [contender.label for contender in parse_contenders(written, sweep=sweep, own=own)]


def test_all_are_those_of_the_proposal_in_its_order_and_then_those_for_hints() -> None:
    assert labels(["all"]) == [*SIX, *HINTED, "cluster-wide"] == list(ALGORITHMS)
    assert {*SUBSETTING_ALGORITHMS, LOCAL_KEP_TOOL.name} == {*SIX}


def test_a_name_of_the_proposals_tool_stands_for_ours() -> None:
    theirs = ["Original", "Local", "LocalShared", "LocalWeighted", "LocalOpt", "none"]
    ours = ["random", "local-kep-tool", "local-shared", "local-weighted", "local-opt", "cluster-wide"]
    assert labels(theirs) == ours
    assert parse_contenders(theirs) == parse_contenders(ours)


STARTS = {"local": 3, "local-kep-tool": 3, "local-shared": 1, "ProportionalZoneCPU": 1}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_defaults_are_those_of_the_proposals(name: str) -> None:
    one = only(name)
    overload = Fraction(1, 5) if name in ("ProportionalZoneCPU", "Balanced") else Fraction(1, 2)
    assert (one.label, one.max_endpoints_per_slice) == (name, 100)
    assert (one.starting_threshold, one.overload_threshold) == (Fraction(STARTS.get(name, 0)), overload)


@pytest.mark.parametrize("name", HAVING)
@pytest.mark.parametrize("parameter", PARAMETERS)
def test_an_algorithm_takes_its_own_parameters_and_no_others(name: str, parameter: str) -> None:
    assert {*HAVING} == {*ALGORITHMS}
    if parameter in HAVING[name]:
        assert labels([f"{name}:{parameter}=7"]) == [f"{name}:{parameter}=7"]
    else:
        with pytest.raises(InputError, match=rf"^--algorithm: {name}: expected .*, got '{parameter}=7'$"):
            parse_contenders([f"{name}:{parameter}=7"])


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (["random,local"], ["random", "local"]),
        ([" random , local ", "local"], ["random", "local"]),
        (["LocalShared", "local-shared"], ["local-shared"]),
        (["local", "all"], ["local", *(name for name in ALGORITHMS if name != "local")]),
        (["local:startingThreshold=2", "local:startingThreshold=2.0"], ["local:startingThreshold=2"]),
        (["local:startingThreshold=2,random"], ["local:startingThreshold=2", "random"]),
        (
            ["local:startingThreshold=2,overloadThreshold=0.3,local-opt:startingThreshold=1,all"],
            ["local:startingThreshold=2,overloadThreshold=0.3", "local-opt:startingThreshold=1", *ALGORITHMS],
        ),
    ],
)
def test_commas_stand_between_names_and_between_parameters(written: list[str], expected: list[str]) -> None:
    assert labels(written) == expected


@examples(50)
@given(
    st.sampled_from(ALGORITHMS),
    st.fixed_dictionaries(
        {},
        optional={
            STARTING: st.integers(0, 4000).map(lambda index: Fraction(index, 4)),
            OVERLOAD: st.integers(0, 1000).map(lambda index: Fraction(index, 1000)),
            OVERLOAD_LIMIT: st.integers(0, 1000).map(lambda index: Fraction(index, 1000)),
            PER_SLICE: st.integers(1, 1000).map(Fraction),
        },
    ),
)
def test_a_label_is_what_may_be_written_to_get_the_same_again(name: str, values: dict[str, Fraction]) -> None:
    given_ = {parameter: value for parameter, value in values.items() if parameter in HAVING[name]}
    written = name + (":" if given_ else "") + ",".join(f"{key}={value}" for key, value in given_.items())
    one = only(written)
    assert only(one.label) == one
    for parameter, value in given_.items():
        assert {
            STARTING: one.starting_threshold,
            OVERLOAD: one.overload_threshold,
            OVERLOAD_LIMIT: one.overload_threshold,
            PER_SLICE: one.max_endpoints_per_slice,
        }[parameter] == value


@pytest.mark.parametrize(
    ("written", "sweep", "expected"),
    [
        (
            "local",
            {"startingThreshold": (1, 2), "overloadThreshold": (0.2, 0.5)},
            [f"local:startingThreshold={one},overloadThreshold={other}" for one in (1, 2) for other in (0.2, 0.5)],
        ),
        (
            "local:startingThreshold=7,maxEndpointsPerSlice=10",
            {"startingThreshold": (1, 2)},
            [f"local:startingThreshold={one},maxEndpointsPerSlice=10" for one in (1, 2)],
        ),
    ],
)
def test_sweeps_are_crossed_and_replace_only_their_own_parameter(
    written: str, sweep: dict[str, Sequence[float | str]], expected: list[str]
) -> None:
    assert labels([written], sweep) == expected


@examples(30)
@given(
    st.lists(st.sampled_from(ALGORITHMS), min_size=1, unique=True),
    st.dictionaries(st.sampled_from(PARAMETERS), st.lists(st.integers(1, 9), min_size=1, max_size=3, unique=True)),
)
def test_as_many_as_the_grids_of_their_parameters_have_points(
    names: list[str], grid: dict[str, list[float | str]]
) -> None:
    grid = {key: values for key, values in grid.items() if any(key in HAVING[name] for name in names)}
    swept = parse_contenders(names, sweep=grid)
    sizes = [prod(len(values) for key, values in grid.items() if key in HAVING[name]) for name in names]
    assert len(swept) == sum(sizes)
    assert len({item.label for item in swept}) == len(swept)


def test_an_own_rule_takes_part_alone_where_no_other_is_asked_for() -> None:
    (one,) = parse_contenders([], own=OWN)
    assert (one.label, one.rule, one.key, one.interpreted, one.weighs) == ("mine", same_zone, "", False, False)
    assert (one.starting_threshold, one.overload_threshold, one.max_endpoints_per_slice) == (
        Fraction(0),
        Fraction(1, 2),
        100,
    )


def test_balanced_takes_its_limit_twice_then_the_objective_and_the_cost_of_every_other_zone() -> None:
    default, other = parse_contenders(["Balanced,Balanced:maxOverload=0.5"])
    assert default.parameters_for(2) == (1, 5, 1, 5, 0, 0, 1_000_000, 1_000_000, 0)
    costs = other.parameters_for(12)[5:]
    assert other.parameters_for(12)[:5] == (1, 2, 1, 2, 0)
    assert [sum(costs[12 * zone : 12 * zone + 12]) for zone in range(12)] == [11_000_000] * 12
    assert [costs[13 * zone] for zone in range(12)] == [0] * 12
    assert [item.label for item in parse_contenders(["all"]) if item.balanced] == ["Balanced"]
    assert only("ProportionalZoneCPU").parameters_for(2) == (1, 5, 1, 5)


def test_an_own_rule_may_have_every_parameter_but_that_of_balanced() -> None:
    written = ["local,mine:startingThreshold=2,overloadThreshold=0.1"]
    local, mine = parse_contenders(
        written, sweep={"maxEndpointsPerSlice": [10]}, own=dataclasses.replace(OWN, interpreted=True)
    )
    assert local.label == "local:maxEndpointsPerSlice=10"
    assert mine.label == "mine:startingThreshold=2,overloadThreshold=0.1,maxEndpointsPerSlice=10"
    assert (mine.rule, mine.interpreted, mine.parameters_for(3)) == (same_zone, True, (1, 10, 1, 10))
    with pytest.raises(InputError, match=r"^--algorithm: mine: expected startingThreshold=NUMBER, .*maxOverload=1'$"):
        parse_contenders(["mine:maxOverload=1"], own=OWN)


ONE_OF = (
    "expected one of all, random, local, local-kep-tool, local-shared, local-weighted, local-opt, ProportionalZoneCPU, "
    "Balanced, PreferSameZone, cluster-wide"
)
THREE = "expected startingThreshold=NUMBER, overloadThreshold=NUMBER, maxEndpointsPerSlice=NUMBER"


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("", f"--algorithm: {ONE_OF}, got ''"),
        ("locale", f"--algorithm: {ONE_OF}, got 'locale'"),
        ("RequireZone", f"--algorithm: {ONE_OF}, got 'RequireZone'"),
        ("all:maxEndpointsPerSlice=3", f"--algorithm: {ONE_OF}, got 'all'"),
        ("local,startingThreshold=3", f"--algorithm: {ONE_OF}, got 'startingThreshold=3'"),
        ("local:startingThreshold", f"--algorithm: local: {THREE}, got 'startingThreshold'"),
        ("local:starting_threshold=3", f"--algorithm: local: {THREE}, got 'starting_threshold=3'"),
        ("Local:starting_threshold=3", f"--algorithm: local-kep-tool: {THREE}, got 'starting_threshold=3'"),
        (
            "random:startingThreshold=3",
            "--algorithm: random: expected maxEndpointsPerSlice=NUMBER, got 'startingThreshold=3'",
        ),
        *(
            (
                f"local:startingThreshold={value}",
                f"--algorithm: startingThreshold: expected a number from 0 to 1000, got '{value}'",
            )
            for value in ("", "three", "-1", "1000.001", "1e2", "nan", "inf", "1/0", "0x10", "1" * 21)
        ),
        *(
            (
                f"local:maxEndpointsPerSlice={value}",
                f"--algorithm: maxEndpointsPerSlice: expected a whole number from 1 to 1000, got '{value}'",
            )
            for value in ("0", "1.5", "1001", "-1", "many")
        ),
    ],
)
def test_what_is_written_wrong_is_shown_with_what_was_expected(written: str, message: str) -> None:
    with pytest.raises(InputError) as raised:
        parse_contenders([written])
    assert str(raised.value) == message


def test_a_sweep_without_values_is_refused() -> None:
    with pytest.raises(InputError, match="sweep: startingThreshold: expected a value or more, got none"):
        parse_contenders(["local", "random"], sweep={STARTING: []})


@pytest.mark.parametrize(
    ("name", "parameter", "value", "message"),
    [
        ("local", "pods", 1, f"sweep: expected {', '.join(PARAMETERS)}, got 'pods'"),
        ("local", STARTING, "", "sweep: startingThreshold: expected a number from 0 to 1000, got ''"),
        ("local", STARTING, "1-5", "sweep: startingThreshold: expected a number from 0 to 1000, got '1-5'"),
        ("local", PER_SLICE, 0.5, "sweep: maxEndpointsPerSlice: expected a whole number from 1 to 1000, got '0.5'"),
        ("random", STARTING, 1, "sweep: expected a parameter that one of the algorithms has, got 'startingThreshold'"),
    ],
)
def test_an_invalid_sweep_is_refused_with_the_expected_value(
    name: str, parameter: str, value: float | str, message: str
) -> None:
    with pytest.raises(InputError) as raised:
        parse_contenders([name], sweep={parameter: [value]})
    assert str(raised.value) == message
