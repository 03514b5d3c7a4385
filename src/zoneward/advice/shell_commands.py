"""Commands to copy into a shell.

Names come from objects that anybody may have written. So every word is quoted for a shell, and names follow ``--``,
after which no program takes a word for an option.
"""

import shlex
from collections.abc import Iterable

from zoneward.kube.safe_text import printable


def kubectl(*words: str, names: Iterable[str] = (), namespace: str = "") -> str:
    """``kubectl -n NAMESPACE WORDS -- NAMES``, as `shell_command`."""
    if namespace.startswith("-"):
        return ""
    return shell_command("kubectl", *(("-n", namespace) if namespace else ()), *words, names=names)


def shell_command(*words: str, names: Iterable[str]) -> str:
    """``WORDS -- NAMES``. ``words`` are Zoneward's own: a program, a verb, its options and placeholders.

    Empty where a name begins with a dash, as no name in the API does.
    """
    names = tuple(names)
    if any(name.startswith("-") for name in names):
        return ""
    return shlex.join(map(printable, (*words, *(("--", *names) if names else ()))))
