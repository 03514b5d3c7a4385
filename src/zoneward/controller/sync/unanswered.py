"""Writes that were begun and never answered: the server may still do them, though nobody waits any more."""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from zoneward.client.api_errors import ApiError, CallFailed
from zoneward.client.transport_interface import WriteTransport

_NO_QUERY: Final[Mapping[str, str]] = {}
_GATEWAY_TIMEOUT: Final = 504
"""The one answer that says nothing: whatever stands behind the server goes on."""


class Unanswered:
    """A connection that remembers when it last began a write that was cut off. ``clock`` counts seconds."""

    def __init__(self, connection: WriteTransport, *, clock: Callable[[], float]) -> None:
        self._connection, self._clock = connection, clock
        self._begun = -math.inf

    @property
    def age(self) -> float:
        """Seconds since the last one was begun; infinite where there is none."""
        return self._clock() - self._begun

    async def get(self, path: str, query: Mapping[str, str] = _NO_QUERY, *, timeout: float | None = None) -> bytes:
        return await self._connection.get(path, query, timeout=timeout)

    async def send(self, method: str, path: str, body: bytes, **options: Any) -> bytes:
        begun = self._clock()
        try:
            return await self._connection.send(method, path, body, **options)
        except ApiError as error:
            if error.status == _GATEWAY_TIMEOUT:
                self._begun = begun
            raise
        except CallFailed as error:
            if error.sent:
                self._begun = begun
            raise
        except BaseException:
            self._begun = begun
            raise
