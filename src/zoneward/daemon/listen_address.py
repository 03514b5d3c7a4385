"""The address that a server listens on, as settings and flags write it: ``[HOST]:PORT``."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zoneward.kube.input_error import show
from zoneward.kube.settings import setting_type


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """``host`` None: all addresses; ``port`` 0: any free port."""

    host: str | None
    port: int

    def __str__(self) -> str:
        host = self.host or ""
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"


def parse_listen_address(text: str) -> ListenAddress:
    """``[HOST]:PORT``. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    is_host = ":" not in host or bare != host
    if not colon or not is_host or not (port.isascii() and port.isdecimal() and int(port) <= 65535):
        raise ValueError(f"expected [HOST]:PORT (127.0.0.1:10271, or :10271 for all addresses), got {text!r}")
    return ListenAddress(bare or None, int(port))


def _check(value: object) -> str:
    text = value if isinstance(value, str) else show(value)
    parse_listen_address(text)
    return text


if TYPE_CHECKING:
    ListenText = str
    OptionalListenText = str
else:
    ListenText = setting_type(str, _check)
    OptionalListenText = setting_type(str, lambda value: "" if value == "" else _check(value))
