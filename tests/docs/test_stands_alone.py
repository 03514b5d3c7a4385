"""The repository is self-contained: nothing in it reads or names what lies outside of it."""

import os
import re
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


@cache
def texts() -> dict[Path, str]:
    """Every text file under version control, by its path in the repository."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [Path(name) for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]
    return {path: (ROOT / path).read_text() for path in paths if b"\0" not in (ROOT / path).read_bytes()}


def test_no_module_climbs_out_of_the_repository_or_names_the_folder_beside_it() -> None:
    """Developers keep notes in that folder; a clone has none of them."""
    climbs = [
        (path, int(steps))
        for path, text in texts().items()
        for steps in re.findall(r"__file__\)(?:\.resolve\(\))?\.parents\[(\d+)\]", text)
    ]
    assert len(climbs) > 10
    assert [(path, steps) for path, steps in climbs if steps >= len(path.parts)] == []
    named = re.compile(r"\bshared" + "/")
    assert [path for path, text in texts().items() if named.search(text)] == []


def test_every_page_that_a_module_names_is_in_it() -> None:
    pages = {path.name for path in texts()}
    modules = {path: text for path, text in texts().items() if path.suffix == ".py"}
    named = {(path, name) for path, text in modules.items() for name in re.findall(r"[\w-]+\.md\b", text)}
    assert named
    assert {(path, name) for path, name in named if name not in pages} == set()


PUBLIC_HOSTS = {
    "www.apache.org",
    "github.com",
    "kubernetes.io",
    "www.w3.org",
    "json-schema.org",
    "specs.opencontainers.org",
}
AS_PUBLISHED = Path("tests/report/data/sarif-2.1.0-rtm.5.json")
"""A schema that names where it was published."""
_URL = re.compile(r"\b(?:https?|ftp|git|oci|ssh)://([\w.-]*[\w-])")


def hosts_of_this_machine() -> set[str]:
    """Proxies and package registries that the environment of this machine names."""
    values = (value for name, value in os.environ.items() if re.search("proxy|index|registry|url", name, re.IGNORECASE))
    hosts = {host for value in values for host in _URL.findall(value) if "." in host} - PUBLIC_HOSTS
    # Numbers alone are no sign: tests are full of addresses of pods.
    return {host if re.search("[a-z]", host) else f"//{host}" for host in hosts}


def test_no_file_names_a_host_but_public_and_invented_ones() -> None:
    """Invented: reserved names (``.example``), names inside a cluster, single words; loopback and private addresses."""
    strange, ours = set(), hosts_of_this_machine()
    for path, text in texts().items():
        strange |= {(path, host) for host in ours if host in text}
        for host in _URL.findall(text) if path != AS_PUBLISHED else ():
            invented = host.endswith((".example", ".invalid", ".svc")) or host.startswith(("127.", "10."))
            if host not in PUBLIC_HOSTS and "." in host and not invented:
                strange.add((path, host))
    assert strange == set()
