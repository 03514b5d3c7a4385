"""Small files that others replace while we run: tokens, certificates, keys."""

import os

from zoneward.client.auth.client_config import PemReference
from zoneward.kube.input_error import InputError
from zoneward.kube.input_files import read_regular

_LARGEST = 1 << 20


class RotatedFile:
    """Its bytes, read again when it changes. Once read, it keeps its last bytes while the file is gone or unreadable.

    A check costs a ``stat``. It follows links, so what Kubernetes does to mounted volumes (another directory behind
    the link ``..data``) is a change of inode.
    """

    def __init__(self, path: str, *, place: str, source: str) -> None:
        self._path, self._place, self._source = path, place, source
        self._seen: tuple[int, ...] | None = None
        self._bytes: bytes | None = None

    def read(self) -> bytes:
        """Raises InputError where the file can't be read and never could."""
        try:
            status = os.stat(self._path)  # noqa: PTH116 -- on the way of every request
            seen = (status.st_mtime_ns, status.st_size, status.st_ino)
            if seen != self._seen:
                data = read_regular(self._path, most=_LARGEST)[:_LARGEST]
                self._seen, self._bytes = seen, data
        except (OSError, ValueError) as error:
            if self._bytes is None:
                problem = error.strerror if isinstance(error, OSError) else error
                raise InputError(
                    self._source, self._place, f"expected a readable file {self._path}, got: {problem}"
                ) from None
        return self._bytes or b""


class PemReader:
    """The bytes of a `PemReference`, read again when its file changes."""

    def __init__(self, pem: PemReference, *, source: str) -> None:
        self._data = pem.data
        self._file = RotatedFile(pem.path or "", place=pem.place, source=source)

    def read(self) -> bytes:
        """Raises InputError."""
        return self._file.read() if self._data is None else self._data
