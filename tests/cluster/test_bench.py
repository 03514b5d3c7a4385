"""Runs of the benchmark of disruptions: what their table says, and which totals are above what is wanted."""

from pathlib import Path

from cluster.bench import DELAYS, Run, missed_goals, read_runs, table
from cluster.parts import Mode


def _runs(disruption: str, mode: Mode, failed: list[int], slow: int = 0, delay: int = 0) -> list[Run]:
    return [
        Run(disruption, delay, mode, index, 3000, count, slow, {"EOF": count}, 9.5, 0.98)
        for index, count in enumerate(failed, start=1)
    ]


def test_a_row_has_each_run_and_the_totals() -> None:
    runs = [*_runs("drain", Mode.BUILT_IN, [9, 12, 30], slow=1), *_runs("drain", Mode.BOTH, [2, 0, 15])]
    assert table(runs).splitlines()[2:] == [
        "| drain | exit at once | 2 + 0 + 15 = **17** | 9 + 12 + 30 = **51** | 0 | 1 + 1 + 1 = **3** |"
    ]


def test_a_third_of_the_failures_is_wanted_where_pods_end_and_no_more_of_them_elsewhere() -> None:
    for name, most in (("rollout", 3), ("drain", 3), ("scaling", 3), ("power", 10), ("take-over", 10)):
        built_in = _runs(name, Mode.BUILT_IN, [4, 6])
        assert missed_goals([*built_in, *_runs(name, Mode.BOTH, [0, most])]) == []
        assert missed_goals([*built_in, *_runs(name, Mode.BOTH, [1, most])]) == [
            f"{name}, Pods that exit at once: at most {most} failed, got {most + 1}"
        ]


def test_no_more_slow_connections_are_wanted_than_with_the_built_in_parts() -> None:
    runs = [*_runs("rollout", Mode.BUILT_IN, [0], slow=1, delay=2), *_runs("rollout", Mode.BOTH, [0], slow=2, delay=2)]
    assert missed_goals(runs) == ["rollout, Pods that serve 2 s longer: at most 1 slow, got 2"]


def test_rows_are_in_the_order_of_the_disruptions_and_pods_that_are_told_to_end_have_one_for_each_kind() -> None:
    names = ("power", "drain", "rollout")
    runs = [run for name in names for delay in DELAYS for run in _runs(name, Mode.BOTH, [0], delay=delay)]
    rows = [line.split(" | ")[:2] for line in table([run for run in runs if run not in runs[1:2]]).splitlines()[2:]]
    assert rows == [
        ["| rollout", "exit at once"],
        ["| rollout", "serve 2 s longer"],
        ["| drain", "exit at once"],
        ["| drain", "serve 2 s longer"],
        ["| power", "stay"],
    ]


def test_there_are_no_runs_before_the_first_one(tmp_path: Path) -> None:
    assert read_runs(tmp_path / "runs.jsonl") == []
