"""``advise -o patches``: patches of Services and workloads as a component of kustomize."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from zoneward.advice.actions import Action
from zoneward.advice.fix_commands import ObjectPatch
from zoneward.advice.service_input import merged
from zoneward.report.slice_manifests import to_yaml

COMPONENT_FILE: Final = "kustomization.yaml"
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
"""What is a name in a path: objects in files may have any."""
_USAGE: Final = (
    "The patches of zoneward advise, for the kustomization that has these objects:",
    "  components: [PATH/TO/THIS/DIRECTORY]",
)


def patch_files(actions: Iterable[Action]) -> Mapping[str, str]:
    """The text of each file by its path. Where several actions patch one object, later ones win in the fields that both
    have. Objects whose names are no names are left out.
    """
    patches: dict[str, tuple[ObjectPatch, str]] = {}
    for action in actions:
        for patch in action.patches:
            parts = (patch.namespace, f"{patch.kind.lower()}-{patch.name}")
            if not all(map(_NAME.fullmatch, parts)):
                continue
            path = f"{parts[0]}/{parts[1]}.yaml"
            about = f"action {action.rank}: {action.title}"
            patches[path] = (patches[path][0].merged(patch) if path in patches else patch), about
    files = {path: _manifest(patch, about) for path, (patch, about) in sorted(patches.items())}
    component = {
        "apiVersion": "kustomize.config.k8s.io/v1alpha1",
        "kind": "Component",
        "patches": [{"path": path} for path in files],
    }
    return {COMPONENT_FILE: to_yaml(component, _USAGE), **files} if files else {}


def _manifest(patch: ObjectPatch, about: str) -> str:
    metadata = {"namespace": patch.namespace, "name": patch.name}
    document = {"apiVersion": patch.api_version, "kind": patch.kind, "metadata": metadata}
    return to_yaml(merged(document, patch.fields, keeps_null=True), (about,))
