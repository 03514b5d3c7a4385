"""The index finds what a look at every Pod would find."""

from hypothesis import given
from hypothesis import strategies as st

from zoneward.kube.objects import Pod, PodMeta
from zoneward.snapshots.cluster_snapshot import PodIndex

LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xy"))


@given(
    st.lists(st.tuples(st.sampled_from(["n1", "n2"]), st.none() | LABELS), max_size=30),
    st.sampled_from(["n1", "n2", "n3"]),
    st.none() | LABELS,
)
def test_selected_pods_are_those_of_the_namespace_with_all_labels_in_their_order(
    kinds: list[tuple[str, dict[str, str] | None]], namespace: str, selector: dict[str, str] | None
) -> None:
    pods = [Pod(metadata=PodMeta(name=str(i), namespace=n, labels=labels)) for i, (n, labels) in enumerate(kinds)]
    expected = tuple(
        pod
        for pod in pods
        if selector
        and pod.metadata.namespace == namespace
        and all((pod.metadata.labels or {}).get(key) == value for key, value in selector.items())
    )
    assert PodIndex(pods).selected(namespace, selector) == expected
