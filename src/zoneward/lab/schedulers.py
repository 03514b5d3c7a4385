"""The door to a dask scheduler: who is asked first whether it is one, within a limit of time."""

import asyncio
from typing import Any, Final

from zoneward.kube.input_error import InputError

OPTION: Final = "--scheduler"


def connected(address: str, *, within: float) -> Any:
    """A client of the scheduler there, to be closed. Raises `InputError` for anybody else, and for nobody."""
    from distributed import Client

    # A client would wait for a server that says nothing until the end of days.
    try:
        found = asyncio.run(asyncio.wait_for(_identity(address), within))
    except TimeoutError:
        raise _not_there(address, f"nobody answered within {within:g} s") from None
    except Exception as error:
        # Whatever else may listen there: what it says is no message of dask.
        raise _not_there(address, f"got {first_line(error)}") from error
    if found.get("type") != "Scheduler":
        raise _not_there(address, f"got a {str(found.get('type')).lower()}")
    try:
        return Client(address, timeout=within, set_as_default=False, name="zoneward")  # type: ignore[no-untyped-call]
    except (OSError, ImportError) as error:
        raise _not_there(address, f"got {first_line(error)}") from error


def _not_there(address: str, got: str) -> InputError:
    return InputError(OPTION, address, f"expected a dask scheduler, {got}")


async def _identity(address: str) -> dict[str, Any]:
    from distributed import rpc

    async with rpc(address) as server:  # type: ignore[no-untyped-call]
        found: dict[str, Any] = await server.identity()
        return found


def first_line(error: BaseException) -> str:
    """What an error says, or its name where it says nothing."""
    return next(iter(str(error).splitlines()), "") or type(error).__name__
