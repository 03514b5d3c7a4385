from tests.plain_words import old_words, pages

# The check reads this file too, so an escape hides the old words from it.


def test_a_word_of_the_old_dialect_is_found_with_its_line_and_what_to_write() -> None:
    assert list(old_words("Slices are kept.\nThe proxy H\x65eds hints.")) == [(2, "H\x65eds", "honor")]


def test_names_and_output_in_code_are_left_alone() -> None:
    assert list(old_words("`heeds` and [page](#an\x65w)\n```\nit t\x65lls\n```\nhints")) == []


def test_every_page_and_the_help_of_every_command_is_looked_at() -> None:
    names = {name for name, _ in pages()}
    assert {"README.md", "docs/limits.md", "deploy/README.md", "zoneward --help", "zoneward plan --help"} <= names
