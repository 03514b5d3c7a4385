"""The manifest of the krew plugin."""

import hashlib
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner
from release.archive import PROGRAM, archive_name
from release.krew import main, manifest

from zoneward import __version__


def test_the_manifest_has_a_platform_for_each_archive_with_its_address_and_hash(tmp_path: Path) -> None:
    platforms = [("linux", "amd64"), ("darwin", "arm64")]
    archives = [tmp_path / archive_name(*platform) for platform in platforms]
    for archive in archives:
        archive.write_text(archive.name)
    filled = yaml.safe_load(manifest(archives, url="https://files.example/files/"))
    assert filled["metadata"]["name"] == "zoneward"
    assert filled["spec"]["version"] == f"v{__version__}"
    assert filled["spec"]["platforms"] == [
        {
            "selector": {"matchLabels": {"os": system, "arch": processor}},
            "uri": f"https://files.example/files/{archive.name}",
            "sha256": hashlib.sha256(archive.read_bytes()).hexdigest(),
            "bin": PROGRAM,
        }
        for archive, (system, processor) in sorted(zip(archives, platforms, strict=True))
    ]
    # As the index of krew asks for.
    assert len(filled["spec"]["shortDescription"]) <= 50
    assert "|\n" in manifest(archives, url="https://files.example")


@pytest.mark.parametrize("name", ["zoneward-9.9.9-linux-amd64.tar.gz", f"zoneward-{__version__}-plan9-amd64.tar.gz"])
def test_another_file_is_no_archive_of_this_version(name: str, tmp_path: Path) -> None:
    (tmp_path / name).touch()
    with pytest.raises(click.UsageError, match="expected an archive of zoneward"):
        manifest([tmp_path / name], url="https://files.example")
    done = CliRunner().invoke(main, ["--to", str(tmp_path)])
    assert (done.exit_code, "got none" in done.output) == (2, True)
