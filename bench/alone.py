"""Part of a benchmark in a network namespace of its own, as a process that ends with us."""

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
    """What ``python -m`` a module of this folder says in a namespace where loopback is up, line by line as JSON.

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
    """One line for who started us."""
    print(json.dumps(what), flush=True)


def enter(namespace: int) -> None:
    """Let this thread be in another network namespace; ``namespace`` is a file of it. Raises OSError."""
    if _LIBC.setns(namespace, _NEW_NETWORK):
        raise OSError(ctypes.get_errno(), "no network namespace")
