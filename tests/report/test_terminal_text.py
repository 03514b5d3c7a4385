"""All text of tables and screens comes from one place, where it is made harmless."""

import re
from pathlib import Path

import zoneward
from zoneward.report.terminal_text import StyledText, Text, join_lines, join_wrapped


def test_nobody_else_makes_text_for_a_terminal() -> None:
    source = Path(zoneward.__file__).parent
    found = {
        str(file.relative_to(source))
        for file in source.rglob("*.py")
        if re.search(r"^\s*(?:from|import) rich\.text\b", file.read_text(), re.MULTILINE)
    }
    assert found == {"report/terminal_text.py"}


def test_nobody_prints_a_line_but_through_the_one_function() -> None:
    """What is echoed elsewhere was rendered already, is a document, or is help."""
    source = Path(zoneward.__file__).parent
    echoed = {
        str(file.relative_to(source))
        for file in source.rglob("*.py")
        if re.search(
            r"click\.(?:echo|secho)\((?!.*(?:nl=False|color=True|format_message|\.source\(\)))", file.read_text()
        )
    }
    assert echoed <= {"cli/output.py", "cli/version.py"}


def test_lines_are_those_that_are_given_and_no_more() -> None:
    text = join_lines(["a\nb", Text("c\x1b[31md")], "dim")
    assert text.plain == "a?b\nc?[31md"
    assert join_wrapped(["a\r", "b"]).plain == "a?\nb"
    assert isinstance(text, StyledText)
