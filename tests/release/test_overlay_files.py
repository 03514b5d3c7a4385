"""The manifests of the overlay's policies against the code that they are written from."""

from release.overlay_files import DEPLOY, overlay_files


def test_the_files_of_the_tree_are_those_that_the_code_gives() -> None:
    assert {name: (DEPLOY / name).read_text() for name in overlay_files()} == overlay_files()
