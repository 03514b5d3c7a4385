"""Commands to copy into a shell.

Names come from objects that anybody may have written. So every word is quoted for a shell, and names follow ``--``,
after which no program takes a word for an option.
"""

import shlex
from collections.abc import Iterable, Sequence
from typing import Final

from zoneward.kube.safe_text import printable

_HELM_NAMES: Final = {"--context": "--kube-context", "--as": "--kube-as-user"}


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


def in_cluster(command: str, options: Sequence[str]) -> str:
    """The same command for the cluster that ``options`` name, as in ``--context=eu-1``; unchanged without any, and if
    it is of another program than kubectl, Helm and Zoneward.
    """
    program = command.partition(" ")[0]
    if not options or program not in ("kubectl", "helm", "zoneward"):
        return command
    if program == "helm":
        named = (option.partition("=") for option in options)
        options = [f"{_HELM_NAMES.get(name, name)}={value}" for name, _, value in named]
    # Those of Zoneward follow its subcommand.
    words = command.split(" ", 2 if program == "zoneward" else 1)
    return " ".join((*words[:-1], shlex.join(map(printable, options)), words[-1]))
