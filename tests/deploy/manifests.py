"""What ``kubectl kustomize`` makes of the folders of ``deploy/``, for as much of it as is used there."""

import copy
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import click
import yaml

from zoneward.cli.main import cli

Object = dict[str, Any]
Right = tuple[str, str, str]
"""API group, resource (with its subresource) and verb."""

ROOT: Final = Path(__file__).parents[2]
DEPLOY: Final = ROOT / "deploy"
MODES: Final = ("overlay", "take-over", "only-marked")
"""Of the controller."""
PROXY_MODES: Final = ("proxy/beside-kube-proxy", "proxy/instead-of-kube-proxy")
"""Of the nodes' proxies."""
METER_MODES: Final = ("meter/base", "meter/with-accounting")
"""Of the nodes' meters."""
NAMESPACES: Final = "namespaces"
"""The folder of what neither of them deletes with itself."""
_KEYS: Final = {"apiVersion", "kind", "resources", "patches"}


@cache
def manifests(mode: str) -> list[Object]:
    """Nobody may change them."""
    return list(_folder(DEPLOY / mode))


def the(kind: str, mode: str, name: str | None = None) -> Object:
    """The only one of its kind, or of those the one with a name."""
    (match,) = (
        manifest
        for manifest in manifests(mode)
        if manifest["kind"] == kind and name in (None, manifest["metadata"]["name"])
    )
    return match


def namespace_of(mode: str) -> Object:
    """Where the service account is."""
    name = the("ServiceAccount", mode)["metadata"]["namespace"]
    (result,) = (manifest for manifest in manifests(NAMESPACES) if manifest["metadata"]["name"] == name)
    return result


def pod(mode: str) -> Object:
    """The template of the Pods."""
    return dict(the("Deployment" if mode in MODES else "DaemonSet", mode)["spec"]["template"])


def container(mode: str) -> Object:
    (result,) = pod(mode)["spec"]["containers"]
    return dict(result)


def invoked(mode: str) -> dict[str, Any]:
    """The options of the container's command, which its first argument names, as it reads them."""
    name, *args = container(mode)["args"]
    with click.Context(cli) as context:
        command = cli.get_command(context, name)
        assert command is not None
        return command.make_context(name, list(args), parent=context).params


def granted(mode: str) -> set[Right]:
    """The permissions of all roles together."""
    return {
        (group, resource, verb)
        for role in manifests(mode)
        if role["kind"] in ("ClusterRole", "Role")
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def _folder(folder: Path) -> Iterator[Object]:
    (said,) = _documents(folder / "kustomization.yaml")
    assert said.keys() <= _KEYS, "teach this file what else kustomize does"
    patches = said.get("patches", ())
    for name in said["resources"]:
        path = folder / name
        for object_ in _folder(path) if path.is_dir() else _documents(path):
            made = object_
            for patch in patches:
                if patch["target"] == {"kind": object_["kind"], "name": object_["metadata"]["name"]}:
                    made = _patched(made, yaml.load(patch["patch"], yaml.CSafeLoader))
            yield made


def _patched(object_: Object, steps: list[Object]) -> Object:
    """What the JSON patches of our kustomizations make: they add, replace and remove."""
    made = copy.deepcopy(object_)
    for step in steps:
        *way, last = (part.replace("~1", "/").replace("~0", "~") for part in step["path"].split("/")[1:])
        sandbox: Any = made
        for part in way:
            sandbox = sandbox[int(part) if isinstance(sandbox, list) else part]
        if isinstance(sandbox, list) and step["op"] == "add":
            sandbox.insert(len(sandbox) if last == "-" else int(last), step["value"])
        elif step["op"] == "remove":
            del sandbox[int(last) if isinstance(sandbox, list) else last]
        else:
            assert step["op"] in ("add", "replace")
            sandbox[int(last) if isinstance(sandbox, list) else last] = step["value"]
    return made


def _documents(path: Path) -> Iterator[Object]:
    for document in yaml.load_all(path.read_text(), yaml.CSafeLoader):
        assert isinstance(document, dict), path
        yield document
