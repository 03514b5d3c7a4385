from tests.plain_words import old_words, pages


def test_a_word_of_the_old_dialect_is_found_with_its_line_and_what_to_write() -> None:
    assert list(old_words("Slices are kept.\nThe proxy Heeds hints.")) == [(2, "Heeds", "honor")]


def test_names_and_output_in_code_are_left_alone() -> None:
    assert list(old_words("`heeds` and [page](#anew)\n```\nit tells\n```\nhints")) == []


def test_every_page_and_the_help_of_every_command_is_looked_at() -> None:
    names = {name for name, _ in pages()}
    assert {"README.md", "docs/limits.md", "deploy/README.md", "zoneward --help", "zoneward plan --help"} <= names
