"""kubectl commands to copy into a shell.

Names come from objects that anybody may have written. So every word is quoted for a shell, and names follow ``--``,
after which kubectl takes no word for an option.
"""

import shlex
from collections.abc import Iterable

from zoneward.kube.safe_text import printable


def kubectl(*words: str, names: Iterable[str] = (), namespace: str = "") -> str:
    """``kubectl -n NAMESPACE WORDS -- NAMES``. ``words`` are Zoneward's own: a verb, its options and placeholders.

    Empty where a name begins with a dash, as no name in the API does.
    """
    names = tuple(names)
    if any(name.startswith("-") for name in (namespace, *names)):
        return ""
    where = ("-n", namespace) if namespace else ()
    rest = ("--", *names) if names else ()
    return shlex.join(("kubectl", *map(printable, (*where, *words, *rest))))
