"""Renders changes of a table as commands for ``nft -f``: one transaction, all or nothing.

nft has no escapes within quotes, so characters of external text that would end a word or a line are replaced or
rejected (`safe_name`, `quote`). Everything else in a command is a parsed value or a constant.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from zoneward.kube.safe_text import printable
from zoneward.proxy.ruleset.ruleset import Chain, RulesetChanges

_AT_ONCE: Final = 500
"""Elements in one command: a line that a person can still open in an editor."""


def render_commands(changes: RulesetChanges) -> str:
    """The commands in dependency order: none uses an object before it exists or deletes one that is in use."""
    return "".join(f"{line}\n" for line in command_lines(changes))


def command_lines(changes: RulesetChanges) -> Iterator[str]:
    where = f"{changes.family} {changes.table}"
    if changes.replaces_table:
        # Deleting a table that does not exist is an error, so it is added first.
        yield f"add table {where}"
        yield f"delete table {where}"
    if changes.creates_table:
        yield f"add table {where}"
    for name, declared in changes.sets.items():
        yield f"add {declared.kind} {where} {name} {{ {declared.spec}; }}"
    for name, chain in changes.chains.items():
        yield f"add chain {where} {name}{_hook(chain)}"
    for name in changes.rewritten_chains:
        yield f"flush chain {where} {name}"
    for name, chain in (*changes.chains.items(), *changes.rewritten_chains.items()):
        for rule in chain.rules:
            yield f"add rule {where} {name} {rule}"
    for name, keys in changes.removed_elements.items():
        if keys:
            yield from _commands(f"delete element {where} {name}", keys)
    for name, elements in changes.added_elements.items():
        pairs = (f"{key} : {value}" if value else key for key, value in elements.items())
        yield from _commands(f"add element {where} {name}", pairs)
    for name in sorted(changes.deleted_chains):
        yield f"flush chain {where} {name}"
    for name in sorted(changes.deleted_chains):
        yield f"delete chain {where} {name}"
    for name in sorted(changes.deleted_sets):
        yield f"delete set {where} {name}"


def _hook(chain: Chain) -> str:
    hook = chain.hook
    return "" if hook is None else f" {{ type {hook.type} hook {hook.name} priority {hook.priority}; }}"


def _commands(command: str, elements: Iterable[str]) -> Iterator[str]:
    remaining = iter(elements)
    while batch := ", ".join(islice(remaining, _AT_ONCE)):
        yield f"{command} {{ {batch} }}"


_NO_NAME: Final = re.compile(r"[^A-Za-z0-9/_.-]")
_STRING: Final = re.compile(r"[!#-\[\]-~]+")
"""Printable ASCII without blanks, quotes and backslashes."""


def safe_name(text: str) -> str:
    """A part of the name of a chain or a set, after a letter. Characters that a name cannot contain become dots.

    Two texts may become the same name: a caller that needs a unique one adds a digest.
    """
    return _NO_NAME.sub(".", text)


def quote(text: str) -> str:
    """The text in quotes. Raises ValueError for one that cannot be quoted."""
    if not _STRING.fullmatch(text):
        raise ValueError(f"expected printable characters without blanks, quotes and backslashes, got {text!r}")
    return f'"{text}"'


def comment_line(text: str) -> str:
    """The text as a comment line, which nft ignores."""
    return f"# {printable(text)}"
