"""A file is there whole or not at all, and nobody can lead the way to another one; tables fit their terminal."""

import os
import secrets
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.running import Commands

from zoneward.cli import output as module
from zoneward.cli.output import atomic_file
from zoneward.kube.input_error import InputError


@pytest.fixture
def _usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def write(path: Path, text: bytes = b"new", *, private: bool = False) -> None:
    with atomic_file(path, private=private) as file:
        file.write(text)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_no_link_beside_it_is_followed_whatever_it_is_called(tmp_path: Path) -> None:
    (tmp_path / "foreign").write_text("foreign")
    (tmp_path / "out.making").symlink_to(tmp_path / "foreign")
    write(tmp_path / "out")
    assert (tmp_path / "foreign").read_text() == "foreign"
    assert (tmp_path / "out").read_text() == "new"
    assert {path.name for path in tmp_path.iterdir()} == {"out", "out.making", "foreign"}


def test_a_name_that_is_taken_is_not_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "token_hex", lambda _bytes: "known")
    (tmp_path / "foreign").write_text("foreign")
    (tmp_path / "out.known.making").symlink_to(tmp_path / "foreign")
    with pytest.raises(InputError, match="expected a file that can be written: File exists"):
        write(tmp_path / "out")
    assert (tmp_path / "foreign").read_text() == "foreign"
    assert (tmp_path / "out.known.making").is_symlink()


@pytest.mark.usefixtures("_usual_umask")
def test_what_is_private_is_for_its_owner_alone_from_the_first_moment(tmp_path: Path) -> None:
    with atomic_file(tmp_path / "out", private=True):
        assert [mode(path) for path in tmp_path.iterdir()] == [0o600]
    assert mode(tmp_path / "out") == 0o600
    write(tmp_path / "public")
    assert mode(tmp_path / "public") == 0o644


@pytest.mark.usefixtures("_usual_umask")
@pytest.mark.parametrize("private", [False, True])
def test_one_that_is_replaced_keeps_its_mode(tmp_path: Path, private: bool) -> None:
    (tmp_path / "out").write_text("old")
    (tmp_path / "out").chmod(0o640)
    write(tmp_path / "out", private=private)
    assert mode(tmp_path / "out") == 0o640


def test_nothing_is_left_where_writing_fails(tmp_path: Path) -> None:
    def fail() -> None:
        with atomic_file(tmp_path / "out") as file:
            file.write(b"half")
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        fail()
    assert not [*tmp_path.iterdir()]


def test_a_named_pipe_from_which_nobody_reads_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_READER_TIMEOUT", 0.01)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="expected a file that can be written: No such device or address"):
        write(tmp_path / "pipe")


def test_a_named_pipe_from_which_somebody_reads_is_written(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    try:
        write(tmp_path / "pipe")
    finally:
        reader.join()
    assert read == [b"new"]


@pytest.mark.parametrize("command", ["advise", "compare", "plan"])
def test_a_legend_explains_colours_where_there_are_some(zoneward: Commands, command: str) -> None:
    legend = "Colours: IN ZONE green from 90%, yellow from 50%"
    assert legend in zoneward(command, "-q", "--sample", "--color", "always").out
    assert legend not in zoneward(command, "-q", "--sample").out
