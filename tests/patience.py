"""How long tests wait for what must happen."""

from typing import Final

PATIENCE: Final = 120.0
"""Seconds after which a wait fails. They only end a hang: a busy machine may take many times as long as an idle one."""
