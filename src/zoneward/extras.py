"""The extras of pyproject.toml, and what to type where one is missing.

The only place that says where packages of Zoneward come from. No package index has them yet; a release changes
`_INSTALL` to ``pip install 'zoneward[{extra}]'``, and README's section Install (docs/releasing.md).
"""

from typing import Final, Literal

Extra = Literal["cluster", "controller", "lab"]
_INSTALL: Final = "pip install '.[{extra}]' in a clone of Zoneward"


def how_to_install(extra: Extra) -> str:
    """The end of a message about a missing library, without a full stop."""
    return _INSTALL.format(extra=extra)
