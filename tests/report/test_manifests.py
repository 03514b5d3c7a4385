import pytest
import yaml

from zoneward.advice.actions import Action, Effect
from zoneward.advice.fix_commands import ObjectPatch
from zoneward.report.manifests import patch_files, to_yaml

READ_AS_OTHERS = ("y", "N", "1e3", "1234e56", "1.5e3", "5e-1", "+.5E+1", "08", "1_0e3", "0o17")
"""Names and labels that an API server accepts, most of them; kubectl and kustomize read them as booleans and numbers
where they have no quotes.
"""


@pytest.mark.parametrize("text", READ_AS_OTHERS)
def test_text_that_kubectl_reads_as_something_else_has_quotes(text: str) -> None:
    assert to_yaml({"labels": {text: text}}, ()) == f"labels:\n  '{text}': '{text}'\n"


def test_other_values_stay_as_they_are() -> None:
    document = {
        "replicas": 12,
        "share": 0.5,
        "large": 1e30,
        "ready": True,
        "gone": None,
        "zone": "eu-1",
        "ip": "10.0.0.1",
    }
    text = to_yaml(document, ("about",))
    assert text.startswith("# about\nreplicas: 12\nshare: 0.5\nlarge: 1.0e+30\nready: true\ngone: null\nzone: eu-1\n")
    assert yaml.safe_load(text) == document


@pytest.mark.parametrize(
    ("api_version", "kind", "replaces"),
    [("apps/v1", "Deployment", False), ("argoproj.io/v1alpha1", "Rollout", True)],
)
def test_patch_says_where_kustomize_replaces_the_list(api_version: str, kind: str, replaces: bool) -> None:
    fields = {"spec": {"template": {"spec": {"topologySpreadConstraints": [{"maxSkew": 1}]}}}}
    patch = ObjectPatch(api_version, kind, "shop", "cart", fields)
    text = patch_files([an_action(patch)])[f"shop/{kind.lower()}-cart.yaml"]
    assert text.startswith("# action 1: more Pods\n")
    assert ("# It replaces all topology spread constraints: add those to keep.\n" in text) == replaces
    scaled = ObjectPatch(api_version, kind, "shop", "cart", {"spec": {"replicas": 3}})
    assert "It replaces" not in patch_files([an_action(scaled)])[f"shop/{kind.lower()}-cart.yaml"]


def an_action(patch: ObjectPatch) -> Action:
    return Action(
        rank=1,
        kind="spread",
        view="kubernetes",
        title="more Pods",
        needs=None,
        effect=Effect(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, None),
        risk="low",
        commands=(),
        notes=(),
        patches=(patch,),
    )
