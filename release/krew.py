"""``python -m release.krew``: the manifest of the krew plugin, for the archives in ``dist/``.

The text is that of ``deploy/krew/zoneward.yaml``. The manifest has a platform for each archive that is there, so all of
them have to be in the folder first.
"""

import copy
import hashlib
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click
import yaml

from release.packages import DIST
from release.source_date import ROOT
from zoneward import __version__

TEMPLATE: Final = ROOT / "deploy" / "krew" / "zoneward.yaml"
MANIFEST: Final = TEMPLATE.name
"""krew wants the name of the plugin."""
RELEASES: Final = f"https://github.com/zoneward/zoneward/releases/download/v{__version__}"
_ARCHIVE: Final = re.compile(rf"zoneward-{re.escape(__version__)}-(linux|darwin)-(amd64|arm64)\.tar\.gz")


def manifest(archives: Sequence[Path], *, url: str) -> str:
    """The manifest as YAML. Each archive is served as ``url/NAME``, with its present content."""
    text: dict[str, Any] = yaml.safe_load(TEMPLATE.read_text())
    spec = text["spec"]
    spec["version"] = f"v{__version__}"
    (blank,) = spec["platforms"]
    spec["platforms"] = [_platform(blank, archive, url) for archive in sorted(archives, key=lambda path: path.name)]
    return yaml.dump(text, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


def _platform(blank: dict[str, Any], archive: Path, url: str) -> dict[str, Any]:
    match = _ARCHIVE.fullmatch(archive.name)
    if match is None:
        raise click.UsageError(f"expected an archive of zoneward {__version__} for a platform, got {archive.name}")
    filled = copy.deepcopy(blank)
    filled["selector"]["matchLabels"] = {"os": match[1], "arch": match[2]}
    filled["uri"] = f"{url.rstrip('/')}/{archive.name}"
    filled["sha256"] = hashlib.sha256(archive.read_bytes()).hexdigest()
    return filled


class _Dumper(yaml.SafeDumper):
    """Text of several lines as a block, as people write it."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)


@click.command()
@click.option("--url", default=RELEASES, show_default=True, help="Where the archives are served.")
@click.option("--to", type=click.Path(file_okay=False, path_type=Path), default=DIST, show_default="dist")
def main(url: str, to: Path) -> None:
    """Write the manifest of the archives in a folder into it."""
    archives = [path for path in to.glob("*.tar.gz") if _ARCHIVE.fullmatch(path.name)]
    if not archives:
        click.echo(f"expected archives in {to}, got none: `python -m release.archive` builds one", err=True)
        sys.exit(2)
    (to / MANIFEST).write_text(manifest(archives, url=url))
    click.echo(to / MANIFEST)


if __name__ == "__main__":
    main()
