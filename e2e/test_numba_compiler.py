"""What numba compiles does what Python does, and other processes find the machine code that was kept."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from tests.routing.test_numba_compiler import FUNCTIONS, drawn, every_result, plain, uncompiled

from zoneward.lab.scoring import machine_code_cache
from zoneward.routing import numba_compiler
from zoneward.routing.numba_compiler import compile_function


def compiled(function: Any) -> Callable[..., Any]:
    """In the user's cache, beside what the lab compiled from the same source."""
    name = f"tested_{FUNCTIONS.index(function)}"
    return compile_function(function, cache_dir=machine_code_cache(), cache_name=name)


def test_compiled_functions_return_the_same_bits() -> None:
    """Groups, weights and measures are the same to the last bit on 300 random inputs."""
    for case in drawn(300):
        assert every_result(compiled, np.array, case) == every_result(uncompiled, plain, case), case


SCORING: Final = """
import json
import numpy as np
from zoneward.lab.contenders import parse_contenders
from zoneward.lab.scoring import kernel, machine_code_directory, score_columns

(contender,) = parse_contenders(["PreferSameZone"])
found = score_columns(contender, np.array([[1, 1]]), np.array([[2, 2]]))[0].tolist()
stats = kernel(contender).stats
print(json.dumps([found, sum(stats.cache_hits.values()), machine_code_directory().name]))
"""


def run_program(program: Path, **environment: str) -> Any:
    command = [sys.executable, str(program)]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | environment)
    return json.loads(ran.stdout)


def kept_files(directory: Path) -> dict[str, int]:
    """Files of machine code, and when each was written."""
    return {str(path.relative_to(directory)): path.stat().st_mtime_ns for path in sorted(directory.rglob("*.nb*"))}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy, without anything compiled, beside a program that scores with it."""
    (tmp_path / "program.py").write_text(SCORING, encoding="utf-8")
    sources = Path(numba_compiler.__file__).parents[1]
    shutil.copytree(sources, tmp_path / "sources" / "zoneward", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "sources"


def without_own_groups(package: Path) -> None:
    """A change of a rule that every result shows: endpoints serve their zone no longer."""
    source = package / "zoneward" / "routing" / "algorithms" / "heuristics.py"
    text = source.read_text(encoding="utf-8")
    changed = text.replace("weights[zone * zones + zone] = 1.0", "weights[zone * zones + zone] = 0.0")
    assert changed != text
    source.write_text(changed, encoding="utf-8")


def test_machine_code_is_reused_until_a_rule_changes(package: Path, tmp_path: Path) -> None:
    """What was kept of the lab's rules is found as long as no source is another; then it is left where it is."""
    path, cache = tmp_path / "program.py", tmp_path / "cache"
    environment = {"PYTHONPATH": str(package), "XDG_CACHE_HOME": str(cache)}
    result, hits, directory = run_program(path, **environment)
    assert (result, hits) == ([1.0], 0)
    files = kept_files(cache)
    assert len(files) == 2
    assert all(name.startswith(f"zoneward/{directory}/") for name in files)
    assert run_program(path, **environment) == [result, 1, directory]
    assert kept_files(cache) == files
    shutil.copytree(package, elsewhere := tmp_path / "elsewhere")
    assert run_program(path, **environment | {"PYTHONPATH": str(elsewhere)}) == [result, 1, directory]
    assert kept_files(cache) == files

    without_own_groups(package)
    result, hits, other = run_program(path, **environment)
    assert (result, hits) == ([0.5], 0)
    assert other != directory
    after = kept_files(cache)
    assert len(after) == 4
    assert files.items() <= after.items()
