"""Bills of materials: valid, complete, and the same bytes for the same content."""

import json
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from release.sbom import Package, bill_of_materials, debian_packages, installed_packages, pinned_packages

REQUIREMENTS = Path(__file__).parents[2] / "deploy" / "requirements.txt"
STATUS = """\
Package: libnftables1
Status: install ok installed
Architecture: amd64
Version: 1.0.6-2+deb12u2
Depends: libc6 (>= 2.36), libnftnl11 (>= 1.2.4) | other
Description: netfilter
 Not-A-Field: of the description

Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.36-9

Package: gone
Status: deinstall ok config-files
Version: 1
"""


def bill(packages: list[Package]) -> str:
    return bill_of_materials("zoneward", "0.1.0", packages, source_date=1_700_000_000)


def dependencies(text: str) -> dict[str, list[str]]:
    return {dependency["ref"]: dependency.get("dependsOn", []) for dependency in json.loads(text)["dependencies"]}


@pytest.mark.parametrize(
    "packages",
    [
        pytest.param(pinned_packages(REQUIREMENTS.read_text()), id="pinned"),
        pytest.param(debian_packages(STATUS), id="debian"),
        pytest.param(
            [Package("odd", "1", license="see the file LICENSE"), Package("mit", "1", license="MIT")], id="odd"
        ),
        pytest.param([], id="none"),
    ],
)
def test_every_bill_is_valid_by_the_schema(packages: list[Package]) -> None:
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(bill(packages)) is None


def test_same_content_gives_the_same_bytes_in_any_order_and_other_content_another_serial_number() -> None:
    packages = pinned_packages(REQUIREMENTS.read_text())
    assert bill(packages) == bill(packages[::-1])
    assert json.loads(bill(packages))["metadata"]["timestamp"] == "2023-11-14T22:13:20+00:00"
    assert json.loads(bill(packages))["serialNumber"] != json.loads(bill(packages[1:]))["serialNumber"]


def test_the_bill_of_the_pinned_packages_names_each_of_them_with_its_version() -> None:
    lines = [line for line in REQUIREMENTS.read_text().splitlines() if "==" in line]
    components = json.loads(bill(pinned_packages(REQUIREMENTS.read_text())))["components"]
    assert {f"{component['name']}=={component['version']}" for component in components} == {
        line.split()[0] for line in lines
    }


def test_a_name_is_one_whatever_its_spelling() -> None:
    spelt = [Package("PyYAML", "6"), Package("reader", "1", requires=("pyyaml", "click"))]
    assert dependencies(bill(spelt))["pkg:pypi/reader@1"] == ["pkg:pypi/pyyaml@6"]


def test_installed_packages_bring_licence_and_what_they_require_without_extras(tmp_path: Path) -> None:
    for name, fields in {
        "one": "License-Expression: MIT\nRequires-Dist: Two_2 >= 1\nRequires-Dist: three; extra == 'more'",
        "two.2": "License: Apache-2.0",
        "three": "License: UNKNOWN",
    }.items():
        folder = tmp_path / f"{name}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: 1.0\n{fields}\n")
    text = bill(installed_packages(tmp_path))
    licenses = {component["name"]: component.get("licenses") for component in json.loads(text)["components"]}
    assert licenses == {
        "one": [{"license": {"id": "MIT"}}],
        "three": None,
        "two.2": [{"license": {"id": "Apache-2.0"}}],
    }
    assert dependencies(text)["pkg:pypi/one@1.0"] == ["pkg:pypi/two-2@1.0"]
    assert len(dependencies(text)["zoneward@0.1.0"]) == 3


def test_debian_packages_are_those_that_are_installed_with_their_architecture() -> None:
    text = bill(debian_packages(STATUS))
    nftables, libc = (
        "pkg:deb/debian/libnftables1@1.0.6-2%2Bdeb12u2?arch=amd64",
        "pkg:deb/debian/libc6@2.36-9?arch=amd64",
    )
    assert {component["purl"] for component in json.loads(text)["components"]} == {nftables, libc}
    assert dependencies(text)[nftables] == [libc]
