"""Part of a benchmark in its own network namespace, as a process that ends with the benchmark."""

import ctypes
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, Final

_NEW_NETWORK: Final = 0x40000000
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_ALONE: Final = ("unshare", "--net", "--kill-child", "--")


def told_alone(module: str, *arguments: object) -> Iterator[Any]:
    """Yield the JSON lines that ``python -m`` a module of this folder prints in a namespace where loopback is up.

    Raises CalledProcessError where it fails.
    """
    start = f'ip link set lo up && exec {sys.executable} -m bench.{module} "$@"'
    command = (*_ALONE, "sh", "-c", start, "sh", *map(str, arguments))
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            yield json.loads(line)
        if process.wait():
            raise subprocess.CalledProcessError(process.returncode, command)
    finally:
        process.kill()
        process.communicate()


def tell(what: Any) -> None:
    """Print one line for the parent process."""
    print(json.dumps(what), flush=True)


def enter(namespace: int) -> None:
    """Move this thread to another network namespace; ``namespace`` is its file. Raises OSError."""
    if _LIBC.setns(namespace, _NEW_NETWORK):
        raise OSError(ctypes.get_errno(), "no network namespace")
