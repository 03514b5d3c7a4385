"""``python -m release.overlay_files``: writes the admission policies of the overlay for kustomize and for the chart.

`zoneward.kube.overlay_objects` is their only source; a test compares the files with it.
"""

import copy
from pathlib import Path
from typing import Any, Final

import click
import yaml

from zoneward.kube.overlay_objects import guard_policies, overlay_policy, own_zone_policy

DEPLOY: Final = Path(__file__).parents[1] / "deploy"
_FOLDED: Final = 70
"""Characters above which a text is folded."""
_NAMESPACE: Final = "zoneward-system"
_HEAD: Final = "# Written by `python -m release.overlay_files`: change src/zoneward/kube/overlay_objects.py.\n"
_CHART_NAMESPACE: Final = "{{ .Values.controller.namespace }}"
_CHART_LABELS: Final = """    {{- include "zoneward.labels" (list . "controller") | nindent 4 }}"""
_CHART_HEAD: Final = """{{- if and .Values.controller.enabled (eq .Values.controller.mode "overlay") }}
"""


def overlay_files() -> dict[str, str]:
    """The text of each file by its path below ``deploy``."""
    return {
        "overlay/policies.yaml": _HEAD + _text([*overlay_policy(), *guard_policies(_NAMESPACE)]),
        "overlay/policy-only/policies.yaml": _HEAD + _text(own_zone_policy()),
        "helm/templates/controller/overlay-policies.yaml": _HEAD + _CHART_HEAD + _chart_text() + "{{- end }}\n",
    }


class _Dumper(yaml.SafeDumper):
    """Folds expressions, so that their quotes stay as they are."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=">" if len(data) > _FOLDED else None)


_Dumper.add_representer(str, _Dumper.represent_str)


def _text(objects: list[dict[str, Any]]) -> str:
    return yaml.dump_all(objects, Dumper=_Dumper, sort_keys=False, width=110, allow_unicode=True)


def _chart_text() -> str:
    objects = copy.deepcopy([*overlay_policy(), *guard_policies(_CHART_NAMESPACE)])
    for object_ in objects:
        object_["metadata"]["labels"] = "LABELS"
    return _text(objects).replace("  labels: LABELS\n", f"  labels:\n{_CHART_LABELS}\n")


def main() -> None:
    files = overlay_files()
    for name, text in files.items():
        (DEPLOY / name).write_text(text)
    click.echo(f"wrote {len(files)} files below {DEPLOY}")


if __name__ == "__main__":
    main()
