"""In which form an answer is wanted, and a body came (RFC 9110 § 12.5.1, as far as API servers go)."""

from dataclasses import dataclass
from typing import Final, Literal

from zoneward.sandbox.server.refusals import Refusal

JSON: Final = "application/json"
YAML: Final = "application/yaml"
_OFFERED: Final = "application/json, application/yaml"

Shape = Literal["", "Table", "PartialObjectMetadata", "PartialObjectMetadataList"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """``shape``: the object itself, or what is made of it, in a version of ``meta.k8s.io``."""

    is_yaml: bool = False
    shape: Shape = ""
    version: Literal["v1", "v1beta1"] = "v1"
    is_aggregated: bool = False
    """Discovery: all groups in one document."""


_PLAIN: Final = Wanted()


def wanted(accept: str) -> Wanted:
    """The first form of an ``Accept`` header that the server has. Raises Refusal."""
    if accept in ("", "*/*", JSON):
        return _PLAIN
    is_known = False
    for part in accept.split(","):
        name, *parameters = (piece.strip() for piece in part.split(";"))
        values = dict(parameter.partition("=")[::2] for parameter in parameters)
        if name not in (JSON, YAML, "*/*", "application/*"):
            continue
        is_known = True
        shape, group = values.get("as", ""), values.get("g", "")
        if shape == "APIGroupDiscoveryList":
            if values.get("v") == "v2":
                return Wanted(is_aggregated=True)
            continue
        if shape:
            known = shape in ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")
            if group != "meta.k8s.io" or values.get("v") not in ("v1", "v1beta1") or not known:
                continue
            return Wanted(is_yaml=name == YAML, shape=shape, version=values["v"])  # type: ignore[arg-type]
        return Wanted(is_yaml=name == YAML)
    message = f"406: Not Acceptable\n\nAvailable representations: {_OFFERED}, application/json;stream=watch"
    raise not_acceptable(f"only the following media types are accepted: {_OFFERED}" if is_known else message)


def not_acceptable(message: str) -> Refusal:
    return Refusal(406, "NotAcceptable", message, details={})
