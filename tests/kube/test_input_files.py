"""What ``-f`` names is found, opened and, where it is junk, refused before it is read."""

import gzip
import io
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from zoneward.kube import input_files
from zoneward.kube.input_error import InputError
from zoneward.kube.input_files import BLOCK, expand, load

NODE = b"apiVersion: v1\nkind: Node\nmetadata: {name: n}\n"


def error_of(call: Callable[[], object]) -> str:
    with pytest.raises(InputError) as caught:
        call()
    return str(caught.value)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("b.yaml", "a.yml", "c.JSON", "sub/d.json.gz", "sub/deep/e.yaml.gz", "a/z.yaml", "f.txt", "g.yaml.bak",
                 "yaml", ".hidden.yaml", ".git/h.yaml", "..data/i.yaml", "j.gz"):  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(NODE)
    return tmp_path


def test_directory_is_read_recursively_sorted_by_path(tree: Path) -> None:
    files = [str(Path(file).relative_to(tree)) for file in expand([str(tree)])]
    assert files == ["a/z.yaml", "a.yml", "b.yaml", "c.JSON", "sub/d.json.gz", "sub/deep/e.yaml.gz"]


def test_file_on_the_command_line_may_have_any_name(tree: Path) -> None:
    paths = [str(tree / "f.txt"), str(tree / ".hidden.yaml"), "-"]
    assert list(expand(paths)) == paths


def test_duplicate_paths_are_read_once(tree: Path) -> None:
    (tree / "link.yaml").symlink_to(tree / "b.yaml")
    a, b = str(tree / "a.yml"), str(tree / "b.yaml")
    assert list(expand([b, "-", a, b, "-", f"{tree}/./a.yml"])) == [b, "-", a]
    files = list(expand([b, str(tree)]))
    assert len(files) == len(set(files)) == 6
    assert str(tree / "link.yaml") not in files


def test_a_directory_without_such_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    expected = "expected a file that ends in .yaml, .yml, .json or one of these and .gz, got none"
    assert error_of(lambda: list(expand([str(tmp_path)]))) == f"{tmp_path}: {expected}"


def test_no_path_and_an_empty_path_are_refused() -> None:
    expected = "expected a file, a directory or - for standard input"
    assert error_of(lambda: list(expand([]))) == f"{expected}, got none"
    assert error_of(lambda: list(expand([""]))) == f"{expected}, got ''"


def test_file_that_cannot_be_opened_is_reported_in_one_line(tree: Path) -> None:
    assert error_of(lambda: load(f"{tree}/none.yaml", stdin=None)) == f"{tree}/none.yaml: no such file or directory"
    (tree / "lost.yaml").symlink_to("nowhere")
    assert str(tree / "lost.yaml") in list(expand([str(tree)]))
    assert error_of(lambda: load(f"{tree}/lost.yaml", stdin=None)) == f"{tree}/lost.yaml: no such file or directory"
    assert error_of(lambda: load(f"{tree}/sub", stdin=None)) == f"{tree}/sub: is a directory"
    assert error_of(lambda: load(f"{tree}/a.yml/x", stdin=None)) == f"{tree}/a.yml/x: not a directory"
    assert error_of(lambda: load("a\0b", stdin=None)) == "a?b: embedded null byte"
    assert error_of(lambda: list(expand(["x" * 5000]))).endswith("x: file name too long")
    assert error_of(lambda: load("-", stdin=None)) == "standard input: expected data, got none connected"


def test_named_pipe_without_a_writer_is_refused(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_files, "_WRITER_WITHIN", 0.01)
    os.mkfifo(tree / "pipe.yaml")
    expected = f"{tree}/pipe.yaml: nobody writes to this pipe within 0.01 s"
    assert error_of(lambda: load(f"{tree}/pipe.yaml", stdin=None)) == expected
    assert str(tree / "pipe.yaml") not in list(expand([str(tree)]))


def test_a_pipe_without_a_name_waits_for_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """As ``-f <(kubectl get ...)``, which takes a while to answer."""
    monkeypatch.setattr(input_files, "_WRITER_WITHIN", 0.0)
    one, other = os.pipe()
    writer = threading.Timer(0.05, lambda: os.close(other) if os.write(other, b"kind: A\n") else None)
    writer.start()
    try:
        assert load(f"/dev/fd/{one}", stdin=None) == b"kind: A\n"
    finally:
        writer.join()
        os.close(one)


def test_unreadable_file_is_reported(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Tests may run as root, to whom nothing is forbidden.
    def refuse(path: object, *_args: object, **_options: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        assert error_of(lambda: load(f"{tree}/a.yml", stdin=None)) == f"{tree}/a.yml: permission denied"
    with monkeypatch.context() as patch:
        patch.setattr(Path, "is_dir", refuse)
        assert error_of(lambda: list(expand([f"{tree}/sub"]))) == f"{tree}/sub: permission denied"
    monkeypatch.setattr(os, "scandir", refuse)
    assert error_of(lambda: list(expand([f"{tree}/sub"]))) == f"{tree}/sub: permission denied"


@pytest.mark.parametrize("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 << 20])
def test_files_pipes_and_standard_input_are_read_completely(tmp_path: Path, size: int) -> None:
    data = (b"# " + b"x" * size)[:size]
    (tmp_path / "file").write_bytes(data)
    assert load(str(tmp_path / "file"), stdin=None) == data
    assert load("-", stdin=io.BytesIO(data)) == data
    assert load("-", stdin=io.BufferedReader(_Trickle(data))) == data
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor() as threads:
        threads.submit((tmp_path / "pipe").write_bytes, data)
        assert load(str(tmp_path / "pipe"), stdin=None) == data


class _Trickle(io.RawIOBase):
    """A pipe that gives a few bytes at a time."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._data.readinto(buffer[: min(len(buffer), 9999)])


_EXPECTED = "expected an object in YAML or JSON"
JUNK = [
    ("zeros", bytes(BLOCK), "byte 0: expected YAML or JSON text, got 0x00"),
    ("ones", b"\xff" * BLOCK, "byte 0: expected UTF-8 text, got 0xff"),
    ("bytes", bytes(range(256)) * 256, "byte 0: expected YAML or JSON text, got 0x00"),
    ("lines", b"y\n" * (BLOCK // 2), f"line 1: {_EXPECTED}, got 'y'"),
    ("words", b"y " * (BLOCK // 2), f"line 1: {_EXPECTED}, got '{('y ' * 15)[:29]}…{' y' * 15}'"),
    ("list", b"- y\n" * (BLOCK // 4), f"line 1: {_EXPECTED}, got '- y'"),
    ("packed", gzip.compress(bytes(1 << 26), 1), "byte 0: expected YAML or JSON text, got 0x00"),
]


@pytest.mark.parametrize(("kind", "block", "line"), JUNK, ids=[kind for kind, _, _ in JUNK])
def test_junk_of_any_size_is_refused_by_its_first_block(tmp_path: Path, kind: str, block: bytes, line: str) -> None:
    path = tmp_path / kind
    path.write_bytes(block * ((4 << 20) // len(block) + 1))
    assert error_of(lambda: load(str(path), stdin=None)) == f"{path}: {line}"
    with path.open("rb", buffering=0) as stream:
        assert error_of(lambda: load("-", stdin=stream)) == f"standard input: {line}"
        assert stream.tell() == BLOCK


def test_endless_input_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for module in (input_files,):
        monkeypatch.setattr(module, "MAX_BYTES", 1 << 20)
    expected = "expected at most 0 GiB of YAML or JSON, got more"
    with (tmp_path / "a.yaml").open("wb") as file:
        file.write(b"#" * BLOCK)
        file.truncate((1 << 20) + 1)
    assert error_of(lambda: load(str(tmp_path / "a.yaml"), stdin=None)) == f"{tmp_path}/a.yaml: {expected}"
    assert error_of(lambda: load("-", stdin=io.BytesIO(b"#" * (3 << 20)))) == f"standard input: {expected}"
    assert error_of(lambda: input_files.decode_text("a.gz", gzip.compress(b"#" * (3 << 20)))) == f"a.gz: {expected}"


class _Recorded(io.BytesIO):
    """A stream that records the sizes of reads: that much memory is allocated."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.asked: list[int] = []

    def read(self, size: int | None = -1, /) -> bytes:
        self.asked.append(size or 0)
        return super().read(size)


@pytest.mark.parametrize("grown", [0, 1, 3 << 20])
@pytest.mark.parametrize("length", [0, len(NODE), 3 << 20])
def test_reading_allocates_only_the_size_of_the_input(length: int, grown: int) -> None:
    data = (NODE * (length // len(NODE) + 1))[:length] + b"#" * grown
    for size in (length, None):
        stream = _Recorded(data)
        assert input_files._content("a", stream, size=size) == data
        assert max(stream.asked) <= max(length, 1 << 20)
    assert bytes(input_files.read_rest("a", _Recorded(data))) == data


def test_too_large_file_is_refused_in_one_line(tmp_path: Path) -> None:
    """A file of 3 GiB, almost all of it a hole, where a process may have 1 GiB."""
    file = tmp_path / "a.yaml"
    with file.open("wb") as stream:
        stream.write(b"#" * BLOCK)
        stream.truncate(3 << 30)
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
        "from zoneward.kube.input_error import InputError\n"
        "from zoneward.kube.input_files import load\n"
        "try: load(sys.argv[1], stdin=None)\n"
        "except InputError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code, file], check=True, capture_output=True, text=True)
    assert done.stdout == f"{file}: expected a file that fits into memory, got a larger one\n"
