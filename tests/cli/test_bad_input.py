"""Bad input: one line that points, exit status 2, nothing on standard output. What is normal is no error."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.running import SAMPLE, Commands, configuration_file

SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\nspec: {selector: {app: web}}\n"

# What is wrong -> (the file, words that its line must hold).
BAD: dict[str, tuple[bytes, tuple[str, ...]]] = {
    "malformed YAML": (b"apiVersion: v1\nkind: [Service\n", ("line 3",)),
    "wrong type": (
        SERVICE.encode() + b"---\n" + SERVICE.replace("{app: web}", "[app]").encode(),
        ("document 2", "spec.selector"),
    ),
    "Pod with an address that is none": (
        b"apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: shop}\nstatus: {podIPs: [{ip: not an ip}]}\n",
        ("Pod shop/p", "status.podIPs[0].ip", "not an ip"),
    ),
    "nothing known": (b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n", ("ConfigMap",)),
    "empty": (b"", ("expected",)),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_one_line_that_points(zoneward: Commands, tmp_path: Path, what: str) -> None:
    data, words = BAD[what]
    path = tmp_path / "cluster.yaml"
    path.write_bytes(data)
    # Beside a file that is whole, except where the input as a whole has nothing.
    whole = () if what in ("nothing known", "empty") else ("-f", SAMPLE)
    err = zoneward.refused("plan", "-o", "json", *whole, "-f", path)
    assert err.startswith(f"zoneward: {path}")
    assert [word for word in words if word not in err] == []


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("missing", lambda _path: None),
        ("a folder without any object", lambda path: path.mkdir()),
        ("a folder of other files", lambda path: (path.mkdir(), (path / "notes.txt").write_text("hi"))),
    ],
)
def test_paths_that_hold_nothing_are_bad_input(
    zoneward: Commands, tmp_path: Path, name: str, make: Callable[[Path], object]
) -> None:
    path = tmp_path / name.replace(" ", "-")
    make(path)
    assert str(path) in zoneward.refused("plan", "-f", path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind: Deployment\napiVersion: apps/v1\n", "kind: expected ZonewardConfiguration, got 'Deployment'"),
        ("colour: blue", "colour: expected one of"),
        ("balanced: {costs: {zones: {a: {b: {c: 1}}}}}", "balanced.costs.zones.a.b: expected a number from 0 to 1e9"),
        ("hints: [", "line 4, column 1: malformed YAML"),
        ("hints: " + "[" * 100_000, "more than 100 levels"),
        ("maxEndpointsPerSlice: 2020-99-99", "expected a whole number from 1 to 1000, got '2020-99-99'"),
        ("maxEndpointsPerSlice: " + "9" * 5_000, "maxEndpointsPerSlice: expected a whole number"),
        ("--- {}\n--- {}\n", "expected one document, got 3"),
    ],
)
def test_bad_configuration_is_one_line_that_points(zoneward: Commands, tmp_path: Path, text: str, words: str) -> None:
    path = configuration_file(tmp_path, text)
    if "apiVersion" in text:
        path.write_text(text)
    assert words in zoneward.refused("plan", "--sample", "--config", path)
