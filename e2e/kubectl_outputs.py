"""What kubectl prints, made comparable."""

import re
from typing import Final

_SUBSTITUTES: Final = tuple(
    (re.compile(pattern, re.MULTILINE), replacement)
    for pattern, replacement in (
        # A line of kubectl's own log.
        (r"^[EWI]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ ", "LOG "),
        # By chance over HTTP/1.1, with a real server as well: whether it sees first that its time is up, or that it has
        # closed its connection for that. Over HTTP/2 it does not happen.
        (r"^LOG reflector\.go.*very short watch.*\n", ""),
        (r"https?://(127\.0\.0\.1|localhost|\[::1\]):\d+", "SERVER"),
        (r"(127\.0\.0\.1|localhost|\[::1\]):\d+", "SERVER"),
        (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "UID"),
        (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)", "TIME"),
        (r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "TIME"),
        (r"""(resourceVersion"?: ?"?|Resource Version: +)\d+""", r"\1VERSION"),
        (r"\b10\.(9[6-9]|10\d|11[01])\.\d+\.\d+\b", "CLUSTER_IP"),
        (r"\b3[0-2]\d{3}\b", "NODE_PORT"),
        (r"\bmade-[bcdfghjklmnpqrstvwxz2456789]{5}\b", "made-RANDOM"),
        (r"(?<![\w.:/=-])(\d+[ydhms]){1,2}(?![\w./-])", "AGE"),
        (r"/tmp/\S+", "FILE"),
        # Columns are as wide as what is in them was.
        (r"(?<=\S)[ \t]{2,}", "  "),
        (r"[ \t]+$", ""),
    )
)


def normalized(text: str, *, lines: str = "") -> str:
    """Without what differs from run to run: ages, times, uids, versions, ports, addresses, names of files."""
    if lines:
        text = "".join(line for line in text.splitlines(keepends=True) if re.search(lines, line))
    for pattern, replacement in _SUBSTITUTES:
        text = pattern.sub(replacement, text)
    return text
