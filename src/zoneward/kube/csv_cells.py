"""Cells of CSV that no spreadsheet takes for a formula."""

import re
from typing import Final, TypeVar

from zoneward.kube.safe_text import printable

CSV_FORMULA: Final = r"\A([=+\-@\t\r\n])"
"""How text begins that a spreadsheet calculates, the first character as a group; for any library of expressions."""
_FORMULA: Final = re.compile(CSV_FORMULA)
T = TypeVar("T")


def safe_csv_cell(value: T) -> "T | str":
    """Text that a spreadsheet would calculate gets an apostrophe before it; numbers are what they are, below 0 too.

    The advice of OWASP, § CSV Injection. As in tables, nothing in it steers a terminal or ends a row.
    """
    return printable(_FORMULA.sub(r"'\1", value)) if isinstance(value, str) else value
