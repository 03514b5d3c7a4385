"""The only place that imports numba: it compiles functions of the decision core as they are, where numba is installed.

A controller does not need it: plain Python makes one decision in a fraction of a millisecond. The lab and the
benchmarks, which make millions, compile the same functions here. The first call imports numba, never before.
"""

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from types import CodeType, FunctionType
from typing import Any, Final

_LARGE: Final = 12_000
"""Bytes of bytecode of all functions together, above which only small ones replace their calls: machine code of the
rest would take minutes and gigabytes to compile."""
_SMALL: Final = 600
"""Bytes of a small function."""


CACHE_SOURCE: Final = "source"
"""An empty file in a directory of kept machine code. numba keeps it apart by the path of the source and by its content:
this is the source of all, so that every installation of the same version finds it."""


def is_available() -> bool:
    """Whether numba is installed."""
    return find_spec("numba") is not None


def compile_function(
    function: Callable[..., Any],
    *,
    allocates: bool = False,
    cache_dir: str = "",
    cache_name: str = "",
    **replacements: Callable[..., Any],
) -> Callable[..., Any]:
    """The function in machine code, for numpy arrays in place of lists; without numba the function itself.

    It is compiled with every plain function that it calls by name, and those that these call, from their source: there
    is no second version of anything. Each is compiled once. ``replacements`` puts other functions behind names that it
    calls.

    ``allocates``: it may create arrays of its own, which no function of the decision core does.

    With ``cache_dir`` the machine code is kept in that directory, as ``cache_name``, where the next process finds it.
    The caller ensures that no other function has the name, that each version of the functions has a directory of its
    own, and that the directory has the file `CACHE_SOURCE`.
    """
    if is_available():
        changed = tuple(sorted(replacements.items()))
        largest = _SMALL if sum(_sizes(function, changed).values()) > _LARGE else _LARGE
        return _compile(function, allocates, largest, cache_dir, cache_name, changed)
    if replacements:
        return _clone(function, function.__name__, {**function.__globals__, **replacements})
    return function


@cache
def _compile(
    function: Any,
    allocates: bool,
    largest: int,
    cache_dir: str,
    cache_name: str,
    replacements: tuple[tuple[str, Callable[..., Any]], ...],
) -> Callable[..., Any]:
    from numba import config, njit

    names = {
        name: _compile(value, allocates, largest, "", "", ()) if isinstance(value, FunctionType) else value
        for name, value in _globals_of(function, replacements).items()
    }
    clone = _clone(function, cache_name or function.__name__, names)
    if cache_dir:
        setattr(config, "CACHE_DIR", cache_dir)  # noqa: B010 -- a name that the module makes up at run time
        clone.__code__ = clone.__code__.replace(co_filename=f"{cache_dir}/{CACHE_SOURCE}")
    # No algorithm divides by zero, and none creates an array: checking for that, and counting references to the arrays
    # that were passed in, would take most of the time.
    options: dict[str, Any] = {"error_model": "numpy", "nogil": True, "_nrt": allocates}
    inline = not cache_dir and len(function.__code__.co_code) <= largest
    result: Callable[..., Any] = njit(**options, cache=bool(cache_dir), forceinline=inline)(clone)
    return result


def _globals_of(function: Any, replacements: tuple[tuple[str, Callable[..., Any]], ...]) -> dict[str, Any]:
    """The global names that a function looks up."""
    used = {*_global_names(function.__code__), "__name__"}
    return {name: value for name, value in {**function.__globals__, **dict(replacements)}.items() if name in used}


def _sizes(function: Any, replacements: tuple[tuple[str, Callable[..., Any]], ...]) -> dict[Any, int]:
    """The bytes of bytecode of a function, and of each that it and these call."""
    found = {function: len(function.__code__.co_code)}
    for value in _globals_of(function, replacements).values():
        if isinstance(value, FunctionType) and value not in found:
            found |= _sizes(value, ())
    return found


def _clone(function: Any, name: str, names: dict[str, Any]) -> FunctionType:
    """The same code under another name, with its own global names."""
    code = function.__code__.replace(co_name=name, co_qualname=name)
    clone = FunctionType(code, names, name, function.__defaults__)
    clone.__qualname__ = name
    return clone


def _global_names(code: CodeType) -> set[str]:
    """Every global name that a function may look up, also in comprehensions within it."""
    inner = (each for each in code.co_consts if isinstance(each, CodeType))
    return set(code.co_names).union(*map(_global_names, inner))
