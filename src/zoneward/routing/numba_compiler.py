"""The one door to numba: functions of the decision core, compiled as they are where numba is installed.

A controller has no need of it: one decision is taken in plain Python in a fraction of a millisecond. Who takes millions
(the lab, the benchmarks) asks here for the same function compiled. numba is imported by the first call, never before.
"""

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from types import CodeType, FunctionType
from typing import Any


def is_available() -> bool:
    """Whether numba is installed."""
    return find_spec("numba") is not None


def compiled(
    function: Callable[..., Any],
    *,
    allocates: bool = False,
    kept_in: str = "",
    kept_as: str = "",
    **given: Callable[..., Any],
) -> Callable[..., Any]:
    """The function in machine code, for numpy arrays in place of lists; without numba as it is.

    It is compiled with every plain function that it calls by name, and those that these call, from their source: there
    is no second version of anything. Each is compiled once. ``given`` puts other functions behind names that it calls.

    ``allocates``: it may make arrays of its own, as no function of the decision core does.

    With ``kept_in`` the machine code is kept in that directory, as ``kept_as``, and found there by the next process.
    Whoever asks for that sees to it that no other function has the name, and that each version of what is called has a
    directory of its own.
    """
    if is_available():
        return _compiled(function, allocates, kept_in, kept_as, tuple(sorted(given.items())))
    return _clone(function, function.__name__, {**function.__globals__, **given}) if given else function


@cache
def _compiled(
    function: Any, allocates: bool, kept_in: str, kept_as: str, given: tuple[tuple[str, Callable[..., Any]], ...]
) -> Callable[..., Any]:
    from numba import config, njit

    known = {
        name: _compiled(value, allocates, "", "", ()) if isinstance(value, FunctionType) else value
        for name, value in {**function.__globals__, **dict(given)}.items()
        if name in {*_names(function.__code__), "__name__"}
    }
    clone = _clone(function, kept_as or function.__name__, known)
    if kept_in:
        setattr(config, "CACHE_DIR", kept_in)  # noqa: B010 -- a name that the module makes up at run time
    # No rule divides by zero, and none makes an array: asking whether it does, and counting who still needs the arrays
    # that were passed in, would take most of the time.
    options: dict[str, Any] = {"error_model": "numpy", "nogil": True, "_nrt": allocates}
    result: Callable[..., Any] = njit(**options, cache=bool(kept_in), forceinline=not kept_in)(clone)
    return result


def _clone(function: Any, name: str, known: dict[str, Any]) -> FunctionType:
    """The same code under another name, and with these names to look up."""
    code = function.__code__.replace(co_name=name, co_qualname=name)
    clone = FunctionType(code, known, name, function.__defaults__)
    clone.__qualname__ = name
    return clone


def _names(code: CodeType) -> set[str]:
    """Every global name that a function may look up, also in comprehensions within it."""
    inner = (each for each in code.co_consts if isinstance(each, CodeType))
    return set(code.co_names).union(*map(_names, inner))
