"""``zoneward snapshot``: what it saves reads back as the same cluster, whole or in part, under its own names or not."""

import gzip
import json
from pathlib import Path

import pytest
import yaml
from tests.cli.running import SAMPLE, Commands, sample_slices

from zoneward.cli.main import run
from zoneward.snapshots.cluster_snapshot import Snapshot, read_snapshot


def snapshot_in(path: Path) -> tuple[object, ...]:
    snapshot = read_snapshot([str(path)], stdin=None)
    return snapshot.services, snapshot.nodes, snapshot.pods, snapshot.slices


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A snapshot of the sample cluster after Zoneward has written its slices there."""
    folder = tmp_path_factory.mktemp("taken")
    slices, path = folder / "slices.json", folder / "taken.json"
    slices.write_bytes(sample_slices())
    assert run(["snapshot", "-q", "-f", str(SAMPLE), "-f", str(slices), "--file", str(path)]) == 0
    return path


@pytest.mark.parametrize("name", ["a.json.gz", "a.yaml"])
def test_what_is_saved_reads_back_as_it_was(zoneward: Commands, tmp_path: Path, name: str) -> None:
    result = zoneward("snapshot", "-f", SAMPLE, "--file", tmp_path / name)
    assert (result.status, result.out) == (0, "")
    note = f"zoneward: 16 Services, 24 Nodes, 408 Pods, 1 EndpointSlice, 1 DaemonSet written to {tmp_path / name}\n"
    assert result.err == note
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert snapshot_in(tmp_path / name) == snapshot_in(SAMPLE)


@pytest.mark.parametrize("name", ["a.json", "a.json.gz", "a.yml", "a.yaml.gz", "a", "A.YAML.GZ", "a.txt"])
def test_the_name_of_the_file_decides_its_form(zoneward: Commands, tmp_path: Path, name: str) -> None:
    assert zoneward("snapshot", "-q", "-f", SAMPLE, "shop/mail", "--file", tmp_path / name).status == 0
    data = (tmp_path / name).read_bytes()
    assert data.startswith(b"\x1f\x8b") == name.lower().endswith(".gz")
    text = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    is_yaml = ".y" in name.lower()
    assert text.startswith(b"apiVersion: v1\n" if is_yaml else b'{"apiVersion":"v1"')
    assert (yaml.load(text, yaml.CSafeLoader) if is_yaml else json.loads(text))["kind"] == "List"


@pytest.mark.parametrize(
    ("to", "start"),
    [
        ((), '{"apiVersion":"v1"'),
        (("--file", "-"), '{"apiVersion":"v1"'),
        (("-o", "JSON"), '{"apiVersion":"v1"'),
        (("-o", "yaml"), "apiVersion: v1"),
    ],
)
def test_without_a_file_it_goes_to_standard_output(zoneward: Commands, to: tuple[str, ...], start: str) -> None:
    result = zoneward("snapshot", "--sample", "shop/cart", *to)
    assert result.status == 0
    assert result.out.startswith(start)
    assert result.err.endswith(" written to standard output\n")


def test_only_what_zoneward_reads_is_saved(zoneward: Commands) -> None:
    def fields(value: object) -> set[str]:
        if isinstance(value, list):
            return {field for item in value for field in fields(item)}
        if isinstance(value, dict):
            return set(value) | {field for item in value.values() for field in fields(item)}
        return set()

    saved_fields = fields(json.loads(zoneward("snapshot", "--sample").out))
    assert {"selector", "podIPs", "allocatable", "zone"} <= saved_fields
    assert {"nodeInfo", "kubeletVersion", "image"} <= saved_fields, "they say which proxies run on the nodes"
    unread = {"volumes", "osImage", "managedFields", "tolerations", "memory", "matchLabels"}
    assert not unread & saved_fields
    saved = json.loads(zoneward("snapshot", "--sample").out)["items"]
    assert [object_["kind"] for object_ in saved if "image" in fields(object_)] == ["DaemonSet"]


def part(zoneward: Commands, path: Path, *arguments: str | Path) -> Snapshot:
    assert zoneward("snapshot", "-q", *arguments, "--file", path).status == 0
    return read_snapshot([str(path)], stdin=None)


@pytest.mark.parametrize(
    "chosen",
    [("shop/cart",), ("-n", "payments"), ("-l", "app in (cart,search)"), ("shop/mail",), ("-A", "api", "cart")],
)
def test_services_that_are_chosen_come_with_all_that_their_plans_need(
    zoneward: Commands, tmp_path: Path, taken: Path, chosen: tuple[str, ...]
) -> None:
    path = tmp_path / "part.json"
    saved = part(zoneward, path, "-f", taken, *chosen)
    whole = read_snapshot([str(taken)], stdin=None)
    assert saved.nodes == whole.nodes
    assert 0 < len(saved.services) < len(whole.services)
    assert len(saved.pods) < len(whole.pods)
    everything = zoneward.json("plan", "-q", "-f", taken, *chosen)
    # Sorted: the order of the output follows the names on the command line, not the snapshot.
    of_part = zoneward.json("plan", "-q", "-f", path)
    for kind in ("decisions", "skipped"):
        assert sorted(map(repr, of_part[kind])) == sorted(map(repr, everything[kind]))


def test_services_without_pods_are_still_known_to_have_none(zoneward: Commands, tmp_path: Path) -> None:
    """A snapshot without any Pod would have the endpoints taken from its slices."""
    lonely = tmp_path / "lonely.yaml"
    lonely.write_text("apiVersion: v1\nkind: Service\nmetadata: {name: alone}\nspec: {selector: {app: alone}}\n")
    for anonymize in ((), ("--anonymize",)):
        saved = part(zoneward, tmp_path / "part.json", "--filename", lonely, "-f", SAMPLE, "default/alone", *anonymize)
        assert saved.has_pods
        assert saved.pods_of(saved.services[0]) == ()
        assert [pod.metadata.name for pod in saved.pods] == ["no-pods"]
        again = part(zoneward, tmp_path / "again.json", "-f", tmp_path / "part.json", *anonymize)
        assert len(again.pods) == 1
    nothing_known = part(zoneward, tmp_path / "part.json", "-f", lonely)
    assert not nothing_known.has_pods


def test_notes_tell_what_was_left_out_where_more_is_asked_for(zoneward: Commands) -> None:
    assert "skipped" not in zoneward("snapshot", "--sample").err
    assert "of kinds that are not needed: 3 v1/Namespace" in zoneward("snapshot", "--sample", "-v").err
    assert zoneward("snapshot", "--sample", "-q").err == ""


def test_an_anonymized_snapshot_names_nobody(zoneward: Commands, tmp_path: Path, taken: Path) -> None:
    path = tmp_path / "shared.json"
    zoneward("snapshot", "-f", taken, "--anonymize", "--file", path)
    shared = path.read_text()
    for word in ("shop", "payments", "cart", "worker", "kube-dns", "10.244", "10.96", "last-applied", "acme"):
        assert word not in shared
    assert "eu-central-1a" in shared
    assert "zoneward.dev/approach" in shared


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("-f", "missing.json", "--file", "a.json"), "missing.json: no such file or directory"),
        (
            ("--sample", "--file", "none/a.json"),
            "--file: none/a.json: expected a file that can be written: No such file",
        ),
        (("--sample", "--file", "."), "--file: .: expected a file that can be written: Is a directory"),
        (("--sample", "--file", ""), "--file: expected a file or -, got ''"),
        (("--sample", "--what-if", "Auto"), "No such option"),
        (("--sample", "--file", "/dev/full"), "cannot write the output: No space left on device"),
    ],
)
def test_what_is_wrong_is_one_line_and_leaves_nothing(
    zoneward: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert zoneward.refused("snapshot", *arguments).startswith(f"zoneward: {line}")
    assert list(tmp_path.iterdir()) == []


def test_bad_input_leaves_an_earlier_snapshot_as_it_was(zoneward: Commands, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("earlier")
    bad = tmp_path / "bad.yaml"
    bad.write_text("apiVersion: v1\nkind: Service\nmetadata: {name: [a]}\n")
    assert zoneward("snapshot", "-f", SAMPLE, "-f", bad, "--file", path).status == 2
    assert path.read_text() == "earlier"
    assert zoneward("snapshot", "-f", SAMPLE, "--file", path).status == 0
    assert snapshot_in(path) == snapshot_in(SAMPLE)


@pytest.mark.parametrize("word", ["wide", "html", "jsonpath={.items}", "cluster.json.gz"])
def test_a_format_that_it_does_not_write_is_refused(
    zoneward: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert f"-o: expected json or yaml, got {word!r}; to write a file: --file {word}" in zoneward.refused(
        "snapshot", "-f", SAMPLE, "-o", word
    )
    assert list(tmp_path.iterdir()) == []


def test_a_path_is_a_file_whatever_it_is_called(
    zoneward: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert zoneward("snapshot", "-q", "-f", SAMPLE, "--file", "json", "-o", "yaml", "shop/cart").status == 0
    assert (tmp_path / "json").read_text().startswith("apiVersion: v1")
