"""It is told of which Services we keep off."""

from zoneward.controller.handover.conflict_detector import no_conflict_check


def test_services_of_which_we_keep_off_are_named_and_no_more_than_three() -> None:
    contested: set[tuple[str, str]] = set()
    check = no_conflict_check(contested)
    assert check() is None
    contested.add(("shop", "cart"))
    assert check() == "the built-in controller writes slices of shop/cart"
    contested.update(("shop", name) for name in "abcd")
    assert check() == "the built-in controller writes slices of shop/a, shop/b, shop/c and 2 more"
