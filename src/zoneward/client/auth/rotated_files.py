"""Small files that other programs replace at run time: tokens, certificates, keys."""

import os

from zoneward.client.auth.client_config import PemReference
from zoneward.kube.input_error import InputError
from zoneward.kube.input_files import read_regular

_LARGEST = 1 << 20


class RotatedFile:
    """The bytes of a file, read again when it changes. While it is missing or unreadable, the last bytes are used.

    A check costs a ``stat``. It follows links, so that an update of a mounted volume, for which Kubernetes points the
    link ``..data`` at another directory, is a change of inode.
    """

    def __init__(self, path: str, *, location: str, source: str) -> None:
        self._path, self._location, self._source = path, location, source
        self._seen: tuple[int, ...] | None = None
        self._bytes: bytes | None = None

    def read(self) -> bytes:
        """The bytes. Raises InputError if the file cannot be read and never could."""
        try:
            status = os.stat(self._path)  # noqa: PTH116 -- called for every request
            seen = (status.st_mtime_ns, status.st_size, status.st_ino)
            if seen != self._seen:
                data = read_regular(self._path, most=_LARGEST)[:_LARGEST]
                self._seen, self._bytes = seen, data
        except (OSError, ValueError) as error:
            if self._bytes is None:
                problem = error.strerror if isinstance(error, OSError) else error
                raise InputError(
                    self._source, self._location, f"expected a readable file {self._path}, got: {problem}"
                ) from None
        return self._bytes or b""


class PemReader:
    """The bytes of a `PemReference`, read again when its file changes."""

    def __init__(self, pem: PemReference, *, source: str) -> None:
        self._data = pem.data
        self._file = RotatedFile(pem.path or "", location=pem.location, source=source)

    def read(self) -> bytes:
        """Raises InputError."""
        return self._file.read() if self._data is None else self._data
