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


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function in machine code, for numpy arrays in place of lists; the function itself without numba.

    It is compiled with every plain function that it calls by name, and those that these call, from their source: there
    is no second version of anything. Each is compiled once.
    """
    return _compiled(function) if is_available() else function


@cache
def _compiled(function: Any) -> Callable[..., Any]:
    from numba import njit

    names = _names(function.__code__)
    scope = {
        name: _compiled(value) if isinstance(value, FunctionType) else value
        for name, value in function.__globals__.items()
        if name in names
    }
    clone = FunctionType(function.__code__, scope, function.__name__, function.__defaults__)
    # No rule divides by zero, and three quarters of the time would go into asking whether it does.
    result: Callable[..., Any] = njit(error_model="numpy", forceinline=True)(clone)
    return result


def _names(code: CodeType) -> set[str]:
    """Every global name that a function may look up, also in comprehensions within it."""
    inner = (each for each in code.co_consts if isinstance(each, CodeType))
    return set(code.co_names).union(*map(_names, inner))
