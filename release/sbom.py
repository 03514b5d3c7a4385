"""Bills of materials: what a wheel, an archive or an image consists of, as CycloneDX 1.6 in JSON.

The same packages and date give the same bytes: the serial number is derived from the content, and the date is that of
the source (``SOURCE_DATE_EPOCH``, else the last commit).

``python -m release.sbom NAME VERSION --requirements deploy/requirements.txt`` writes the bill of pinned packages to
standard output, and ``--installed FOLDER`` that of what is installed in a ``site-packages``.
"""

import os
import re
import sys
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Final, Literal

import click
from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from release.source_date import SourceDateError, source_date

_SUBJECTS: Final = {
    "application": ComponentType.APPLICATION,
    "container": ComponentType.CONTAINER,
    "library": ComponentType.LIBRARY,
}
Subject = Literal["application", "container", "library"]
_PINNED: Final = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s\\;]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Package:
    """One part of what is delivered. ``requires`` names other parts of the same ecosystem; names that are no part are
    left out. ``license`` is an SPDX expression, or a name where the package gives none."""

    name: str
    version: str
    ecosystem: Literal["pypi", "deb", "generic"] = "pypi"
    architecture: str = ""
    license: str = ""
    requires: tuple[str, ...] = ()

    @property
    def purl(self) -> PackageURL:
        """Its package URL, as the purl specification has them."""
        if self.ecosystem == "deb":
            qualifiers = {"arch": self.architecture} if self.architecture else None
            return PackageURL("deb", "debian", self.name, self.version, qualifiers)
        name = canonicalize_name(self.name) if self.ecosystem == "pypi" else self.name
        return PackageURL(self.ecosystem, None, name, self.version)


def pinned_packages(requirements: str) -> list[Package]:
    """Of the text of a requirements file: every line ``name==version``, with or without hashes."""
    return [Package(name, version) for name, version in _PINNED.findall(requirements)]


def installed_packages(folder: Path) -> list[Package]:
    """Of a ``site-packages`` or of a folder like it, ordered by name."""
    installed = [_installed(distribution) for distribution in distributions(path=[str(folder)])]
    return sorted(installed, key=lambda package: canonicalize_name(package.name))


def debian_packages(status: str) -> list[Package]:
    """Of the text of ``/var/lib/dpkg/status``, or of another list in its form: all that are installed."""
    return [
        Package(
            fields["Package"],
            fields["Version"],
            ecosystem="deb",
            architecture=fields.get("Architecture", ""),
            requires=tuple(_debian_names(fields.get("Pre-Depends", ""), fields.get("Depends", ""))),
        )
        for fields in map(_debian_fields, re.split(r"\n\s*\n", status))
        if fields.get("Status", "install ok installed").endswith(" installed") and {"Package", "Version"} <= set(fields)
    ]


def bill_of_materials(
    name: str, version: str, packages: Iterable[Package], *, source_date: int, subject: Subject = "application"
) -> str:
    """The bill of what is called ``name``, made of ``packages``: JSON text that ends with a line feed.

    ``source_date`` is in seconds since 1970.
    """
    whole = Component(
        name=name,
        version=version,
        type=_SUBJECTS[subject],
        bom_ref=f"{name}@{version}",
        licenses=[LicenseFactory().make_from_string("Apache-2.0")],
    )
    parts = {package: _component(package) for package in packages}
    bom = Bom(
        components=parts.values(),
        serial_number=_serial_number(name, version, parts),
        metadata=BomMetaData(component=whole, timestamp=datetime.fromtimestamp(source_date, UTC)),
    )
    # Names are compared as their index does: PyPI takes "PyYAML" and "pyyaml" for one.
    by_name = {(package.ecosystem, canonicalize_name(package.name)): part for package, part in parts.items()}
    bom.register_dependency(whole, parts.values())
    for package, part in parts.items():
        names = dict.fromkeys((package.ecosystem, canonicalize_name(requirement)) for requirement in package.requires)
        bom.register_dependency(
            part, [by_name[required] for required in names if by_name.get(required, part) is not part]
        )
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"


def _component(package: Package) -> Component:
    licenses = [LicenseFactory().make_from_string(package.license)] if package.license else None
    purl = package.purl
    return Component(name=package.name, version=package.version, purl=purl, bom_ref=purl.to_string(), licenses=licenses)


def _serial_number(name: str, version: str, packages: Iterable[Package]) -> uuid.UUID:
    content = "\n".join((f"{name}@{version}", *sorted(package.purl.to_string() for package in packages)))
    return uuid.uuid5(uuid.NAMESPACE_URL, content)


def _installed(distribution: Distribution) -> Package:
    metadata = distribution.metadata
    license_ = next((metadata[field] for field in ("License-Expression", "License") if field in metadata), "")
    return Package(
        metadata["Name"],
        distribution.version,
        # Some packages have the whole text of the licence there.
        license=license_ if "\n" not in license_ and license_ != "UNKNOWN" else "",
        requires=tuple(_required(distribution)),
    )


def _required(distribution: Distribution) -> Iterator[str]:
    for line in distribution.requires or ():
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield requirement.name


def _debian_fields(paragraph: str) -> dict[str, str]:
    # A line that starts with a blank continues the field before it: none of those that are read here does.
    lines = (line.partition(":") for line in paragraph.splitlines() if line[:1].strip())
    return {name: value.strip() for name, _, value in lines}


def _debian_names(*relations: str) -> Iterator[str]:
    """Of ``libc6 (>= 2.36), default-mta | mail-transport-agent``: every name, alternatives too."""
    for relation in ",".join(relations).split(","):
        for alternative in relation.split("|"):
            if name := re.match(r"\s*([a-z0-9][a-z0-9+.-]*)", alternative):
                yield name[1]


@click.command()
@click.argument("name")
@click.argument("version")
@click.option("--requirements", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--installed", type=click.Path(exists=True, file_okay=False, path_type=Path))
def main(name: str, version: str, requirements: Path | None, installed: Path | None) -> None:
    """Write the bill of materials of NAME VERSION to standard output."""
    packages = pinned_packages(requirements.read_text()) if requirements else []
    packages += installed_packages(installed) if installed else []
    if not packages:
        raise click.UsageError("expected --requirements or --installed with at least one package")
    try:
        date = source_date(environment=os.environ)
    except SourceDateError as error:
        click.echo(error, err=True)
        sys.exit(2)
    click.echo(bill_of_materials(name, version, packages, source_date=date), nl=False)


if __name__ == "__main__":
    main()
