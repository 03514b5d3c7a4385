"""Archives for platforms: their names, and the same bytes for the same content."""

import os
import tarfile
from pathlib import Path

import pytest
from release.archive import ArchiveError, archive_name, platform_name, write_archive

from zoneward import __version__


@pytest.mark.parametrize(
    ("system", "processor", "name"),
    [
        ("Linux", "x86_64", "linux-amd64"),
        ("Linux", "aarch64", "linux-arm64"),
        ("Darwin", "x86_64", "darwin-amd64"),
        ("Darwin", "arm64", "darwin-arm64"),
    ],
)
def test_a_platform_has_the_name_that_krew_gives_it(system: str, processor: str, name: str) -> None:
    assert archive_name(*platform_name(system, processor)) == f"zoneward-{__version__}-{name}.tar.gz"


def test_another_platform_is_refused_in_one_line() -> None:
    with pytest.raises(ArchiveError, match=r"^expected Linux or macOS on x86_64 or arm64, got Plan9 on mips$"):
        platform_name("Plan9", "mips")


def test_the_same_content_is_packed_to_the_same_bytes_whatever_its_order_times_and_owner_bits(tmp_path: Path) -> None:
    program, text = tmp_path / "program", tmp_path / "text"
    program.write_text("a")
    text.write_text("b")
    packed = [tmp_path / "one.tar.gz", tmp_path / "two.tar.gz"]
    program.chmod(0o755)
    write_archive(packed[0], {"bin/program": program, "text": text}, date=1_700_000_000)
    program.chmod(0o700)
    text.chmod(0o600)
    os.utime(text, (1, 1))
    write_archive(packed[1], {"text": text, "bin/program": program}, date=1_700_000_000)
    assert packed[0].read_bytes() == packed[1].read_bytes()
    with tarfile.open(packed[0]) as archive:
        members = {member.name: (oct(member.mode), member.mtime, member.uid, member.gid) for member in archive}
    assert members == {"bin/program": ("0o755", 1_700_000_000, 0, 0), "text": ("0o644", 1_700_000_000, 0, 0)}
