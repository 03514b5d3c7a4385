"""Why nft took nothing, in one line."""

from typing import Final

_COMMAND_WORDS: Final = 5
_LONGEST: Final = 400


def refusal(words: str) -> str:
    """Nft's reason, and the part of a command at fault: nft draws a line under it.

    ``File exists: 10.0.0.1 . tcp . 80 (add element ip zoneward services)``.
    """
    lines = words.strip().splitlines()
    if not lines:
        return "nft says nothing"
    found = lines[0].partition("Error: ")[2] or lines[0]
    found = found.removeprefix("Could not process rule: ")
    if len(lines) > 2 and lines[2].strip() and set(lines[2].strip()) <= {"^", "~", " "}:
        start, end = lines[2].find("^"), lines[2].rfind("^") + 1
        part = lines[1][start:end].strip() if start >= 0 else ""
        command = " ".join(lines[1].split()[:_COMMAND_WORDS])
        found += f": {part} ({command})" if part else f" ({command})"
    return found[:_LONGEST]
