import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoneward.kube.input_error import did_you_mean, near_names


@pytest.mark.parametrize(
    ("word", "known", "expected"),
    [
        ("shpo", ["shop", "kube-system"], " (did you mean 'shop'?)"),
        ("SHOP", ["shop", "shop2"], " (did you mean 'shop'?)"),
        ("pln", ["plan", "compare", "plain"], " (did you mean 'plan'?)"),
        ("cart-a", ["cart-b", "cart-c", "cart-d", "cart-e"], " (did you mean 'cart-b', 'cart-c' or 'cart-d'?)"),
        ("shop", ["kube-system"], ""),
        ("shop", [], ""),
        ("", ["shop"], ""),
    ],
)
def test_only_similar_names_are_suggested(word: str, known: list[str], expected: str) -> None:
    assert did_you_mean(word, known) == expected


@given(st.text(min_size=6, max_size=12), st.lists(st.text(max_size=12), max_size=8), st.data())
def test_name_with_a_missing_letter_is_suggested(name: str, others: list[str], data: st.DataObject) -> None:
    missing = data.draw(st.integers(0, len(name) - 1))
    word = name[:missing] + name[missing + 1 :]
    near = near_names(word, [name, *others])
    assert near == near_names(word, [*reversed(others), name])
    # More than three others may be nearer still.
    assert near
    assert name in near or any(other in near for other in others)
