"""A CSV file becomes the inputs that it holds, or one line that says where it is wrong."""

import csv
import os
import random
import tracemalloc
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest

from zoneward.kube.input_error import FieldMismatch, InputError
from zoneward.lab import csv_dataset
from zoneward.lab import csv_dataset as csv_files
from zoneward.lab.csv_dataset import MOST_BYTES, CsvDataset, parse_lines, parse_row
from zoneward.lab.datasets import stratified_sample

Row = tuple[int, str, list[int], list[int]]
"""Number, name, nodes and endpoints."""
GOOD = b"name,a,b\none,1 2,3 4\n"

# What is wrong with the third line -> (the line, what is said of it).
BAD_ROWS: dict[str, tuple[bytes, str]] = {
    "a missing column": (b"x,1 2", "b: expected 3 columns, got 2"),
    "an empty line": (b"", "a: expected 3 columns, got an empty line"),
    "an extra column": (b"x,1 2,3 4,5 6", "expected 3 columns, got 4"),
    "text for nodes": (b"x,one 2,3 4", "a: expected nodes as a whole number from 0 to 1,000,000, got 'one'"),
    "text for endpoints": (b"x,1 2,3 four", "b: expected endpoints as a whole number from 0 to 1,000,000, got 'four'"),
    "digits of another script": (
        "x,1 2,3 \u0664".encode(),
        "b: expected endpoints as a whole number from 0 to 1,000,000, got '\u0664'",
    ),
    "more than 64 bits": (
        b"x,1 2,3 99999999999999999999",
        "b: expected endpoints as a whole number from 0 to 1,000,000, got '99999999999999999999'",
    ),
    "one number in a cell": (b"x,1 2,3", "b: expected nodes and endpoints with a space between, got '3'"),
    "zero nodes in all zones": (b"x,0 2,0 4", "expected a node in one of the zones, got none"),
    "not UTF-8 in the name": (b"x\xff,1 2,3 4", "expected UTF-8, got byte 0xff"),
    "a quote that does not end": (
        b'"x,1 2,3 4',
        "expected quotes in pairs around cells, and doubled within, got '\"x,1 2,3 4'",
    ),
    "a line one byte too long": (b"x" * (MOST_BYTES - 7) + b",1 2,3 4", "expected at most 2,048 bytes, got more"),
    "a line too long in its last number": (
        b"x,1 2,3 " + b"0" * MOST_BYTES + b"4",
        "expected at most 2,048 bytes, got more",
    ),
}

# What is wrong with the file -> (its content, what is said of it).
BAD_FILES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "expected a first line such as name,zone1,zone2, got an empty file"),
    "no first line": (b"one,1 2,3 4", "row 1: expected a first line such as name,zone1,zone2, got 'one' first"),
    "name not first": (b"a,name,b\n", "row 1: expected a first line such as name,zone1,zone2, got 'a' first"),
    "31 zones": (f"name,{','.join(map(str, range(31)))}\n".encode(), "row 1: expected 2 to 30 zones, got 31"),
    "a zone twice": (b"name,a,b, a\n", "row 1: expected a unique name for each zone, got 'a'"),
    "a first line that is not UTF-8": (b"name,a,\xe9\n", "row 1: expected UTF-8, got byte 0xe9"),
    "UTF-16": ("name,a,b\n".encode("utf-16"), "row 1: expected UTF-8, got byte 0xff"),
    "an endless first line": (b"name,a," * 10_000, "row 1: expected at most 16,384 bytes, got more"),
    "no row": (b"name,a,b\n", "expected a row after the first line, got none"),
}


def _written(directory: Path, content: bytes) -> Path:
    path = directory / "inputs.csv"
    path.write_bytes(content)
    return path


def _chunks(dataset: CsvDataset) -> list[list[Row]]:
    result = []
    for chunk in dataset.chunks():
        inputs = chunk.inputs()
        columns = inputs.numbers, inputs.names, inputs.demand.tolist(), inputs.supply.tolist()
        result.append([(int(index), *rest) for index, *rest in zip(*columns, strict=True)])
    return result


def _rows(dataset: CsvDataset) -> list[Row]:
    return [row for chunk in _chunks(dataset) for row in chunk]


def _refusal(act: Callable[[], object]) -> str:
    with pytest.raises(InputError) as refused:
        act()
    return str(refused.value)


def _plain(count: int) -> bytes:
    rng = random.Random(count)
    lines = (f"i{row},{rng.randint(1, 9)} {rng.randint(0, 99)},{rng.randint(0, 9)} 5" for row in range(count))
    return ("name,a,b\n" + "".join(f"{line}\n" for line in lines)).encode()


def test_example_of_the_proposals_tool_is_read(tmp_path: Path) -> None:
    """A name with spaces, a zone without endpoints, a space after commas."""
    path = _written(tmp_path, b"name, zone1, zone2, zone3\n1 zone empty, 30 100, 30 100, 30 0\n")
    assert _chunks(CsvDataset(path)) == [[(0, "1 zone empty", [30, 30, 30], [100, 100, 0])]]


@pytest.mark.parametrize("untidy", [False, True])
@pytest.mark.parametrize("zones", [2, 3, 30])
def test_random_inputs_come_back(tmp_path: Path, zones: int, untidy: bool) -> None:
    rng = random.Random(f"{zones} {untidy}")
    names = ["plain", "two words", "", "Zürich 東京", *(['a, "b"', "a,b", '"'] if untidy else [])]
    text = StringIO()
    writer = csv.writer(text, lineterminator="\r\n" if untidy else "\n")
    writer.writerow(["name", *(f"zone {zone:02}" for zone in range(zones))])
    expected = []
    for index in range(500):
        nodes = [rng.choice([0, 1, 7, 1_000_000]) for _ in range(zones - 1)] + [1]
        endpoints = [rng.choice([0, 3, 1_000_000]) for _ in range(zones)]
        name = f"{rng.choice(names)}{rng.choice(['', index])}"
        between = rng.choice([" ", "  ", " +0"]) if untidy else " "
        cells = [f"{a}{between}{b}" for a, b in zip(nodes, endpoints, strict=True)]
        if untidy:
            cells[rng.randrange(zones)] += " "
        writer.writerow([name, *cells])
        expected.append((index, name, nodes, endpoints))
    content = text.getvalue().encode()
    dataset = CsvDataset(_written(tmp_path, b"\xef\xbb\xbf" + content + b"\r\n \n\n" if untidy else content[:-1]))
    assert dataset.rows == 500
    assert _rows(dataset) == expected


def test_zones_take_part_in_the_order_of_their_names(tmp_path: Path) -> None:
    path = _written(tmp_path, b"name,zone2,zone10,Zone3\nx,1 2,3 4,5 6\n")
    assert _rows(CsvDataset(path)) == [(0, "x", [5, 3, 1], [6, 4, 2])]


def test_fast_and_literal_reading_agree() -> None:
    """Lines with random changes are read alike by polars and by `parse_row`."""
    rng = random.Random(20_260_901)
    pieces = [*'0123456789 ,,"-+.\t\r\0x', "\ufffd", "\u00a0", "é", "  ", ", ", "00000000000000000000"]
    good = bad = 0
    for _ in range(300):
        lines = []
        for _ in range(20):
            text = rng.choice(["n,1 2,3 4", "a b, 10 0,0 7", '"q, ""x""",1 2,3 4', " n,0 5,1 1", "n,0 1,0 2"])
            for _ in range(rng.choice([0, 0, 1, 1, 2, 3])):
                at = rng.randrange(len(text) + 1)
                text = text[:at] + rng.choice(pieces) + text[at + rng.randint(0, 1) :]
            line = text.encode()
            lines.append(line[:-1] + b"\xff" if rng.random() < 0.02 else line)
        rows = parse_lines(lines, ("a", "b"))
        read = dict(zip(rows.lines.tolist(), zip(rows.names, rows.demand, rows.supply, strict=True), strict=True))
        first = None
        for index, line in enumerate(lines):
            try:
                name, counts = parse_row(line.removesuffix(b"\r"), ("a", "b"))
            except FieldMismatch as misfit:
                assert index not in read, line
                first = first or (index, misfit.args)
                bad += 1
            else:
                assert (read[index][0], [*read[index][1], *read[index][2]]) == (name, counts), line
                good += 1
        assert (rows.first_invalid and (rows.first_invalid[0], rows.first_invalid[1].args)) == first
    assert good > 1000
    assert bad > 1000


@pytest.mark.parametrize("wrong", BAD_ROWS)
@pytest.mark.parametrize("more", [b"", b"\nlast,1 2,3 4\n", b"\r\nlast,1 2,3 4\r\nworse,,\r\n"])
def test_bad_row_is_named(tmp_path: Path, wrong: str, more: bytes) -> None:
    line, said = BAD_ROWS[wrong]
    if not line and not more:
        more = b"\nlast,1 2,3 4\n"
    path = _written(tmp_path, GOOD + line + more)
    assert _refusal(lambda: list(CsvDataset(path).chunks())) == f"{path}: row 3: {said}"


@pytest.mark.parametrize("wrong", BAD_FILES)
def test_bad_file_is_refused_at_once(tmp_path: Path, wrong: str) -> None:
    content, said = BAD_FILES[wrong]
    path = _written(tmp_path, content)
    assert _refusal(lambda: CsvDataset(path)) == f"{path}: {said}"


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert _refusal(lambda: CsvDataset(tmp_path / "none")) == f"{tmp_path}/none: no such file or directory"
    assert _refusal(lambda: CsvDataset(tmp_path)) == f"{tmp_path}: expected a CSV file, got a directory"
    said = "expected a CSV file, got something that can't be read twice"
    assert _refusal(lambda: CsvDataset(tmp_path / "pipe")) == f"{tmp_path}/pipe: {said}"
    assert _refusal(lambda: CsvDataset(Path("nul\0byte"))) == "nul?byte: embedded null byte"


def test_thousand_million_rows_need_a_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert csv_files.MOST_ROWS == 999_999_999
    monkeypatch.setattr(csv_files, "MOST_ROWS", 9)
    path = _written(tmp_path, _plain(10))
    assert _refusal(lambda: CsvDataset(path)) == f"{path}: expected at most 9 rows, or --sample-size, got 10 rows"
    assert CsvDataset(path, sample=3).rows == 3
    assert CsvDataset(_written(tmp_path, _plain(9))).rows == 9


def test_first_bad_row_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_files, "ROWS_PER_CHUNK", 10)
    lines = _plain(100).splitlines()
    lines[38] = b"\xff,1 2,3 4"
    lines[35] = b"x,0 2,0 4"
    lines[36] = lines[70] = b"x"
    dataset = CsvDataset(_written(tmp_path, b"\n".join(lines)))
    chunks = dataset.chunks()
    assert [len(next(chunks).inputs().names) for _ in range(3)] == [10, 10, 10]
    assert _refusal(lambda: next(chunks)).endswith("row 36: expected a node in one of the zones, got none")


def test_file_that_changes_is_refused(tmp_path: Path) -> None:
    path = _written(tmp_path, _plain(10))
    for dataset in (CsvDataset(path), CsvDataset(path, sample=5)):
        path.write_bytes(_plain(3))
        said = "expected 10 rows, as when they were counted, got 3"
        assert _refusal(lambda dataset=dataset: list(dataset.chunks())) == f"{path}: {said}"  # type: ignore[misc]
        path.write_bytes(_plain(10))


def test_invalid_rows_are_left_out_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_files, "ROWS_PER_CHUNK", 7)
    good = _plain(40).splitlines()[1:]
    bad = [line for line, _ in BAD_ROWS.values()]
    dataset = CsvDataset(_written(tmp_path, b"\n".join([b"name,a,b", *good[:20], *bad, *good[20:]])), skip_invalid=True)
    assert (dataset.rows, dataset.skipped) == (40 + len(bad), 0)
    for _ in range(2):
        chunks = _chunks(dataset)
        assert all(chunks)
        rows = [row for chunk in chunks for row in chunk]
        assert (dataset.rows, dataset.skipped) == (40, len(bad))
        assert [index for index, *_ in rows] == [*range(20), *range(20 + len(bad), 40 + len(bad))]
        assert [name for _, name, *_ in rows] == [f"i{row}" for row in range(40)]


def test_only_invalid_rows_are_refused(tmp_path: Path) -> None:
    path = _written(tmp_path, b"name,a,b\nx\ny\n")
    said = "expected a valid row, got 2 that are not"
    assert _refusal(lambda: list(CsvDataset(path, skip_invalid=True).chunks())) == f"{path}: {said}"


@pytest.mark.parametrize("sample", [None, 1, 7, 40, 100, 1000])
def test_chunks_do_not_depend_on_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sample: int | None) -> None:
    monkeypatch.setattr(csv_files, "ROWS_PER_CHUNK", 16)
    path = _written(tmp_path, _plain(100))
    whole = _chunks(CsvDataset(path, sample=sample, seed=5))
    rows = sum(map(len, whole))
    assert rows == (100 if sample is None else min(sample, 100))
    assert [len(chunk) for chunk in whole] == [16] * (rows // 16) + [rows % 16] * (rows % 16 > 0)
    for block in (1, 2, 13, 100, 1000):
        monkeypatch.setattr(csv_dataset, "_BLOCK_BYTES", block)
        assert _chunks(CsvDataset(path, sample=sample, seed=5)) == whole


def test_sample_takes_one_row_of_each_stretch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _written(tmp_path, _plain(1000))
    everything = _rows(CsvDataset(path))
    monkeypatch.setattr(csv_files, "ROWS_PER_CHUNK", 32)
    drawn = {}
    for seed in (1, 2):
        drawn[seed] = _rows(CsvDataset(path, sample=100, seed=seed))
        assert [index // 10 for index, *_ in drawn[seed]] == list(range(100))
        numbers = stratified_sample(1000, 100, seed=seed, start=0, stop=100).tolist()
        assert drawn[seed] == [everything[index] for index in numbers]
    assert drawn[1] != drawn[2]
    lines = path.read_bytes().splitlines()
    lines[1:] = [line if index in numbers else b"bad" for index, line in enumerate(lines[1:])]
    path.write_bytes(b"\n".join(lines))
    assert _rows(CsvDataset(path, sample=100, seed=2)) == drawn[2]


@pytest.mark.parametrize(("long", "line_bytes"), [(1, 64 << 20), (1000, 64 << 10)])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, long: int, line_bytes: int) -> None:
    """Not even with a line that never seems to end, or with many that are too long: 64 MiB of them."""
    path = _written(tmp_path, GOOD)
    with path.open("ab") as file:
        for _ in range(long):
            file.truncate(file.tell() + line_bytes)
            file.seek(0, os.SEEK_END)
            file.write(b"\n")
        file.write(b"last,1 2,3 4\n" * 70_000)
    tracemalloc.start()
    try:
        dataset = CsvDataset(path, skip_invalid=True)
        given = sum(len(chunk.inputs().names) for chunk in dataset.chunks())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (given, dataset.skipped) == (70_001, long)
    assert peak < 32 << 20
