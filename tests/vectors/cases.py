"""The conformance vectors in ``data``: how to read them, and the proof that none is passed over."""

import gzip
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

VECTORS: Final = Path(__file__).parent / "data"

Case = dict[str, Any]
"""One line of a file: ``id``, ``kind``, and what the file's kinds hold beside them."""

SELECTION: Final = "selection"
"""The kind of cases that name none: what a node's proxy selects."""


@dataclass(frozen=True, slots=True)
class RunIn:
    """Another module of this folder runs the case, and proves that it does."""

    module: str


def load(name: str) -> list[Case]:
    """The cases of one file, ``.json`` (a list) or ``.jsonl`` (one a line), large ones with ``.gz``, in its order."""
    path = VECTORS / name
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    lines = ".jsonl" in path.suffixes
    cases = msgspec.json.Decoder(Case).decode_lines(content) if lines else msgspec.json.decode(content, type=list[Case])
    return [{"kind": SELECTION, **case} for case in cases]


def by_name(*runners: Callable[[Case], None]) -> dict[str, Callable[[Case], None]]:
    return {runner.__name__: runner for runner in runners}


def check_complete(cases: Iterable[Case], run_kinds: Collection[str], left_out: Mapping[str, RunIn]) -> None:
    kind_of: dict[str, str] = {}
    faults = []
    for case in cases:
        if case["id"] in kind_of:
            faults.append(f"{case['id']}: two cases have this id")
        kind_of[case["id"]] = case["kind"]
    for id_, kind in kind_of.items():
        if kind in run_kinds and id_ in left_out:
            faults.append(f"{id_}: left out, though kind {kind} is run")
        if kind not in run_kinds and id_ not in left_out:
            faults.append(f"{id_}: neither is kind {kind} run nor is the case left out for a reason")
    faults += [f"{id_}: left out, but there is no such case" for id_ in left_out if id_ not in kind_of]
    faults += [f"{kind}: run, but no case is of this kind" for kind in run_kinds if kind not in kind_of.values()]
    if faults:
        raise AssertionError("\n".join(["the vectors are not all accounted for:", *faults]))
