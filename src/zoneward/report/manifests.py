"""Objects for ``kubectl apply``: EndpointSlices and overlays as a v1 List, and patches as a component of kustomize."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from zoneward.advice.service_input import Workload, merged
from zoneward.kube import names
from zoneward.kube.adoption_marks import manager_of
from zoneward.kube.objects import EndpointSlice
from zoneward.kube.overlay_objects import overlay_policy
from zoneward.kube.safe_text import printable
from zoneward.routing.configuration import Configuration
from zoneward.routing.phrases import counted
from zoneward.slices.overlay import TooManyZones, encode_entries, is_selected, service_overlays, with_approach
from zoneward.slices.plan import ServicePlan

if TYPE_CHECKING:
    from zoneward.advice.actions import Action
    from zoneward.advice.fix_commands import ObjectPatch


def slices_document(plans: Iterable[ServicePlan]) -> dict[str, Any]:
    """A v1 List of all slices after the plans, new and existing ones."""
    slices = (
        # The approach of an overlay is in its ConfigMap.
        with_approach(slice_, None) if family.cluster_state.configuration.is_overlay else slice_
        for plan in plans
        for family in plan.families
        for slice_ in family.changes.after
    )
    return {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": [slice_document(slice_) for slice_ in slices]}


def slice_document(slice_: EndpointSlice) -> dict[str, Any]:
    """One slice without the fields that the API server sets: it refuses a stale version or UID."""
    meta = slice_.metadata
    metadata: dict[str, Any] = {"name": meta.name, "namespace": meta.namespace}
    for name, value in (("labels", meta.labels), ("annotations", meta.annotations)):
        if value:
            metadata[name] = dict(value)
    if meta.owner_references:
        metadata["ownerReferences"] = msgspec.to_builtins(meta.owner_references)
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": metadata,
        "addressType": slice_.address_type,
        "endpoints": msgspec.to_builtins(slice_.endpoints or ()),
        "ports": msgspec.to_builtins(slice_.ports or ()),
    }


def deleted_slices(plans: Iterable[ServicePlan], *, manager: str) -> tuple[str, ...]:
    """``namespace/name`` of every slice of a manager that must be deleted: applying a List deletes nothing."""
    return tuple(
        f"{slice_.metadata.namespace}/{slice_.metadata.name}"
        for plan in plans
        for slices in (*((*family.replaced, *family.changes.delete) for family in plan.families), plan.surplus)
        for slice_ in slices
        if manager_of(slice_) == manager
    )


def warn_before_applying(plans: Sequence[ServicePlan], *, configuration: Configuration) -> Iterator[str]:
    """Warnings before the slices of plans are applied, line by line."""
    built_in = deleted_slices(plans, manager=names.BUILT_IN_MANAGER)
    own = deleted_slices(plans, manager=names.MANAGER)
    if configuration.upstream:
        yield "EndpointSlices as the built-in controller would write them; where it runs, it changes them back."
        yield from _block(f"{counted(len(built_in), 'slice')} with its label would be deleted:", built_in)
        return
    if configuration.manager == names.BUILT_IN_MANAGER:
        yield "EndpointSlices with the label of the built-in controller; where it runs, it changes them back."
        yield from _block(f"{counted(len(built_in), 'slice')} with its label would be deleted:", built_in)
        yield from _block(f"{counted(len(own), 'slice')} with Zoneward's label would be deleted:", own)
        return
    yield "Do not apply these slices beside the built-in EndpointSlice controller: every endpoint would be listed"
    yield "twice, and proxies would take either copy, with its hints or without."
    if not built_in:
        yield "This snapshot holds no slice of the built-in controller; where it runs, all of its slices of these"
        yield f"Services must be deleted (label {names.MANAGED_BY_LABEL}: {names.BUILT_IN_MANAGER})."
    yield from _block(f"{counted(len(built_in), 'slice')} of the built-in controller must be deleted:", built_in)
    yield from _block(f"{counted(len(own), 'slice')} of Zoneward, no longer needed, must be deleted, too:", own)


def _block(heading: str, slices: tuple[str, ...]) -> Iterator[str]:
    if slices:
        yield heading
        yield from (f"  {name}" for name in slices)


def overlay_document(plans: Iterable[ServicePlan], *, configuration: Configuration) -> dict[str, Any]:
    """A v1 List of the policy of an overlay, its binding, and the ConfigMaps for the Services in it."""
    entries: dict[str, dict[str, str]] = {}
    for plan in plans:
        if not is_selected(plan.service, None, configuration):
            continue
        try:
            overlays = service_overlays(plan.decisions)
        except TooManyZones:
            # The controller refuses it.
            continue
        if overlays:
            metadata = plan.service.metadata
            entries.setdefault(metadata.namespace, {}).update(encode_entries(metadata.name, overlays))
    config_maps = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": names.OVERLAY_CONFIG_MAP, "namespace": namespace},
            "data": data,
        }
        for namespace, data in sorted(entries.items())
    ]
    return {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": [*overlay_policy(), *config_maps]}


def warn_before_overlay(plans: Sequence[ServicePlan], *, configuration: Configuration) -> Iterator[str]:
    """What to know before the objects of an overlay are applied, line by line."""
    count = sum(is_selected(plan.service, None, configuration) for plan in plans)
    services = f"{counted(count, 'Service')} of {len(plans)} {'is' if count == 1 else 'are'} in the overlay"
    yield f"The policy needs Kubernetes 1.36 or newer. {services}."
    yield "Slices get these hints when they are written next. Entries for single endpoints are those of this moment:"
    yield "`zoneward controller --overlay` keeps them current."


_READ_BY_KUBECTL: Final = re.compile(r"[ynYN]|[-+]?(0o[0-7_]+|(\d[\d_]*(\.[\d_]*)?|\.\d[\d_]*)([eE][-+]?\d[\d_]*)?)")
"""Text that PyYAML leaves without quotes, and that kubectl and kustomize read as a boolean or a number."""


@cache
def _yaml_dumper() -> Any:
    import yaml

    base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

    class Dumper(base):  # type: ignore[misc]
        pass

    pattern = re.compile(f"({_READ_BY_KUBECTL.pattern})$")
    Dumper.add_implicit_resolver("tag:yaml.org,2002:float", pattern, list("ynYN-+.0123456789"))
    return Dumper


def to_yaml(document: Any, header: Iterable[str]) -> str:
    """YAML behind a header of comments."""
    import yaml

    comments = "".join(f"# {printable(line)}".rstrip() + "\n" for line in header)
    return comments + yaml.dump(document, Dumper=_yaml_dumper(), sort_keys=False, default_flow_style=False, width=4096)


# --- patches for kustomize --------------------------------------------------------------------------------------------


COMPONENT_FILE: Final = "kustomization.yaml"
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
"""What is a name in a path: objects in files may have any."""
_USAGE: Final = (
    "The patches of zoneward advise, for the kustomization that has all of these objects, with their namespaces:",
    "  components: [PATH/TO/THIS/DIRECTORY]",
)


def patch_files(actions: "Iterable[Action]") -> Mapping[str, str]:
    """The text of each file by its path. Where several actions patch one object, later ones win in the fields that both
    have. Of actions that change the same Service in another way, the first one counts. Objects whose names are no names
    are left out.
    """
    patches: dict[str, tuple[ObjectPatch, str]] = {}
    services_of: dict[int, set[tuple[str, str]]] = {}
    for action in actions:
        services_of[action.rank] = {(part.namespace, part.service) for part in action.services}
        others = set[tuple[str, str]]().union(*(services_of.get(rank, ()) for rank in action.instead_of))
        for patch in action.patches:
            if patch.kind == "Service" and (patch.namespace, patch.name) in others:
                continue
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


def _manifest(patch: "ObjectPatch", about: str) -> str:
    metadata = {"namespace": patch.namespace, "name": patch.name}
    document = {"apiVersion": patch.api_version, "kind": patch.kind, "metadata": metadata}
    header = [about]
    if (
        "template" in (patch.fields.get("spec") or {})
        and not Workload(patch.kind, patch.name, patch.api_version, pods=0).is_built_in
    ):
        # Kustomize merges lists of the kinds that it knows.
        header.append("It replaces all topology spread constraints: add those to keep.")
    return to_yaml(merged(document, patch.fields, keeps_null=True), header)
