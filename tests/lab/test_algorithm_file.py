"""A custom algorithm: loaded, tried, compiled if numba can, and refused with one line that names the problem."""

from pathlib import Path

import numpy as np
import pytest

from zoneward.kube.input_error import InputError
from zoneward.lab.algorithm_file import check_algorithm, load_algorithm_file
from zoneward.lab.contenders import CustomAlgorithm, parse_contenders
from zoneward.lab.scoring import score_columns

HEAD = "def rule(demand, supply, parameters, previous, composition, weights, scratch, reals):\n"
SAME_ZONE = """
    zones = len(demand)
    for zone in range(zones):
        composition[zone * zones + zone] = supply[zone]
        weights[zone * zones + zone] = 1.0
    return zones
"""
CASE = "for nodes 26, 1, 4, 27, 17, 1 and endpoints 0, 0, 1, 1, 0, 1"
"""The first input that a rule is tried on: it has six zones."""


def tried(tmp_path: Path, code: str, name: str = "rule") -> tuple[CustomAlgorithm, str]:
    path = tmp_path / "my.py"
    path.write_text(code)
    written = f"{path}:{name}"
    return check_algorithm(load_algorithm_file(written), written=written)


@pytest.mark.slow
def test_a_rule_that_numba_compiles_scores_like_the_registry_s(tmp_path: Path) -> None:
    rule, note = tried(tmp_path, HEAD + SAME_ZONE)
    assert (note, rule.name, rule.interpreted) == ("", "rule", False)
    (mine,), (theirs,) = parse_contenders([], own=rule), parse_contenders(["PreferSameZone"])
    demand, supply = np.array([[3, 1, 2], [1, 1, 1]]), np.array([[5, 0, 9], [2, 2, 2]])
    assert np.array_equal(score_columns(mine, demand, supply), score_columns(theirs, demand, supply))


@pytest.mark.slow
def test_a_rule_that_numba_can_t_compile_runs_as_plain_python_and_says_so(tmp_path: Path) -> None:
    plain = "    if not any(n > 0 for n in sorted(supply, key=lambda n: -n)):\n        return -1"
    rule, note = tried(tmp_path, HEAD + plain + SAME_ZONE)
    assert rule.interpreted
    assert f"{tmp_path / 'my.py'}:rule: numba can't compile it (" in note
    assert "so it runs as plain Python on one core: " in note
    assert "times as long as local compiled" in note
    assert "\n" not in note
    (mine,), (theirs,) = parse_contenders([], own=rule), parse_contenders(["PreferSameZone"])
    demand, supply = np.array([[3, 1, 2], [1, 1, 1]]), np.array([[5, 0, 9], [2, 2, 2]])
    assert np.array_equal(score_columns(mine, demand, supply), score_columns(theirs, demand, supply))


@pytest.mark.slow
def test_a_rule_that_means_something_else_when_compiled_runs_as_plain_python(tmp_path: Path) -> None:
    """Python's numbers don't overflow."""
    big = "    if 3037000500 * 3037000500 * (1 + supply[0]) < 0:\n        return -1"
    rule, note = tried(tmp_path, HEAD + big + SAME_ZONE)
    assert rule.interpreted
    assert "compiled it gives something else" in note


# What a file holds -> what is said behind its name.
CAN_T_BE_LOADED: dict[str, tuple[str, str]] = {
    "no such function": ("x = 3\n", ": expected a function rule, found none"),
    "a class": ("class rule: ...\n", ": expected a function rule, found none"),
    "too few arguments": (
        "def rule(demand, supply): ...\n",
        ": rule: expected the arguments (demand, supply, parameters, previous, composition, weights, scratch, reals)",
    ),
    "a mistake in the syntax": ("x = 1\ndef rule(:\n", ": line 2: invalid syntax"),
    "a module that is missing": ("import nowhere_at_all\n", ": ModuleNotFoundError: No module named 'nowhere_at_all'"),
    "an error": ("1 // 0\n", ": ZeroDivisionError: integer division or modulo by zero"),
    "no text": ("\0\n", ": SyntaxError: source code string cannot contain null bytes"),
}


@pytest.mark.parametrize("what", CAN_T_BE_LOADED)
def test_what_can_t_be_loaded_is_told_in_a_line(tmp_path: Path, what: str) -> None:
    code, said = CAN_T_BE_LOADED[what]
    path = tmp_path / "my.py"
    path.write_text(code)
    with pytest.raises(InputError) as caught:
        load_algorithm_file(f"{path}:rule")
    assert str(caught.value) == f"--algorithm-file: {path}{said}"


GROUPS = 14
WRONG: dict[str, tuple[str, str]] = {
    "no answer": ("    pass", f"expected a number of groups from -1 to {GROUPS}, got null"),
    "too many groups": ("    return 15", f"expected a number of groups from -1 to {GROUPS}, got 15"),
    "an endpoint that is lost": (
        "    return 1",
        "expected every endpoint of zone 3 in one group, 1 in all, got 0",
    ),
    "an endpoint twice": (
        "    composition[2] = composition[8] = weights[0] = weights[6] = 1\n    return 2",
        "expected every endpoint of zone 3 in one group, 1 in all, got 2",
    ),
    "less than no endpoint": (
        "    composition[0] = -1\n    return 1",
        "expected whole numbers of endpoints, got -1",
    ),
    "a negative weight": (
        "    for zone in range(6):\n        composition[zone] = supply[zone]\n    weights[1] = -1.0\n    return 1",
        "expected weights of 0 or more, got 0.0, -1.0, 0.0, 0.0, 0.0, 0.0",
    ),
    "a group that nobody consumes": (
        "    for zone in range(6):\n        composition[zone] = supply[zone]\n    return 1",
        "expected a zone that consumes group 1, all weights are 0",
    ),
    "an error": ("    return 1 // 0", "ZeroDivisionError: integer division or modulo by zero"),
    "an index beyond": ("    composition[10**6] = 1", "IndexError: list assignment index out of range"),
    "other inputs": ("    supply[0] = 1", "TypeError: 'tuple' object does not support item assignment"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_what_is_no_allocation_is_told_with_the_input_that_shows_it(tmp_path: Path, what: str) -> None:
    code, said = WRONG[what]
    with pytest.raises(InputError) as caught:
        tried(tmp_path, HEAD + code + "\n")
    assert str(caught.value) == f"--algorithm-file: {tmp_path / 'my.py'}:rule: {said}, {CASE}"


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("my.py", "expected my.py:function, got 'my.py'"),
        (":rule", "expected my.py:function, got ':rule'"),
        ("my.py:", "expected my.py:function, got 'my.py:'"),
        ("my.py:a.b", "expected my.py:function, got 'my.py:a.b'"),
        ("none.py:rule", "none.py: expected a Python file, found none"),
        (".:rule", ".: expected a Python file, found none"),
    ],
)
def test_what_is_no_file_and_function_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        load_algorithm_file(written)
    assert str(caught.value) == f"--algorithm-file: {said}"


def test_a_rule_can_t_take_the_name_of_an_algorithm(tmp_path: Path) -> None:
    """A table could not distinguish them, and -a would mean one of them."""
    (tmp_path / "my.py").write_text((HEAD + SAME_ZONE).replace("rule", "local_opt"))
    with pytest.raises(InputError, match="expected a name that no algorithm has, got local-opt"):
        load_algorithm_file(f"{tmp_path / 'my.py'}:local_opt")


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "my.txt").write_text(HEAD + SAME_ZONE)
    with pytest.raises(InputError, match=r"my\.txt: expected a file whose name ends with \.py"):
        load_algorithm_file(f"{tmp_path / 'my.txt'}:rule")
