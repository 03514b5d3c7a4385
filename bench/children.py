"""Parts of a benchmark as separate processes, so that the cost of each is measured separately."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Generator, Iterator
from dataclasses import astuple
from importlib import import_module
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final

from bench.measuring import Run, run

_ALONE: Final = ("unshare", "--net", "--kill-child", "--", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")


def results_of(part: str, *arguments: object, alone: bool = False) -> Generator[Any]:
    """Yield what a function of this folder, ``module.function``, yields or returns, as JSON has it; figures are lists.

    ``alone``: it has a network namespace where loopback is up. Raises CalledProcessError where it fails.
    """
    command = (*(_ALONE if alone else ()), *_command(part, arguments))
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


def measured(part: str, *arguments: object) -> tuple[Any, Run]:
    """The result of such a function, and the cost of its process."""
    with NamedTemporaryFile() as output:
        took = run(_command(part, arguments), output=Path(output.name))
        return json.load(output), took


def _command(part: str, arguments: tuple[object, ...]) -> tuple[str, ...]:
    return sys.executable, "-m", "bench.children", part, json.dumps(arguments)


async def _all(results: AsyncIterator[Any] | Awaitable[Any]) -> None:
    if isinstance(results, AsyncIterator):
        async for result in results:
            _print(result)
    else:
        _print(await results)


def _print(what: Any) -> None:
    print(json.dumps(what, default=astuple), flush=True)


def _main(part: str, arguments: str) -> None:
    module, _, name = part.rpartition(".")
    results = getattr(import_module(f"bench.{module}"), name)(*json.loads(arguments))
    if isinstance(results, AsyncIterator | Awaitable):
        asyncio.run(_all(results))
    else:
        for result in results if isinstance(results, Iterator) else [results]:
            _print(result)


if __name__ == "__main__":
    _main(*sys.argv[1:])
