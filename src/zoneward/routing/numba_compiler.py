"""The only module that imports numba: it compiles functions of the decision core as they are, where numba is installed.

A controller does not need it: plain Python makes one decision in a fraction of a millisecond. The lab and the
benchmarks, which make millions, compile the same functions here. The first call imports numba, never before.
"""

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from types import CellType, CodeType, FunctionType
from typing import Any, Final

_LARGE: Final = 12_000
"""Bytes of bytecode of all functions together, above which only calls of small ones are inlined: compiling the rest
inline would take minutes and gigabytes."""
_SMALL: Final = 600
"""Bytes of a small function. With 400, `Balanced` takes 1.6 times as long; with 720, it compiles for 20 s more."""

CACHE_SOURCE: Final = "source"
"""An empty file in a cache directory. numba files machine code by the path of the source: all code has this one, so
that every installation of the same version finds it."""


def is_available() -> bool:
    """Whether numba is installed."""
    return find_spec("numba") is not None


def compile_function(
    function: Callable[..., Any], *, allocates: bool = False, cache_dir: str = "", cache_name: str = ""
) -> Callable[..., Any]:
    """The function in machine code, for numpy arrays in place of lists; without numba the function itself.

    It is compiled with every plain function that it calls, by a global name or as a closure, and those that these call,
    from their source: there is no second version. Each is compiled once.

    ``allocates``: it may create arrays, which no function of the decision core does.

    With ``cache_dir`` the machine code is stored in that directory, as ``cache_name``, where the next process finds it.
    The caller ensures that no other function has the name, that each version of the functions has its own directory,
    and that the directory has the file `CACHE_SOURCE`.
    """
    if not is_available():
        return function
    largest = _SMALL if sum(_sizes(function).values()) > _LARGE else _LARGE
    return _compile(function, allocates, largest, cache_dir, cache_name)


@cache
def _compile(function: Any, allocates: bool, largest: int, cache_dir: str, cache_name: str) -> Callable[..., Any]:
    from numba import config, njit

    def compiled(value: Any) -> Any:
        return _compile(value, allocates, largest, "", "") if isinstance(value, FunctionType) else value

    clone = FunctionType(
        function.__code__.replace(co_name=cache_name, co_qualname=cache_name) if cache_name else function.__code__,
        {name: compiled(value) for name, value in _globals_of(function).items()},
        cache_name or function.__name__,
        function.__defaults__,
        tuple(CellType(compiled(cell.cell_contents)) for cell in function.__closure__ or ()),
    )
    clone.__qualname__ = clone.__name__
    if cache_dir:
        setattr(config, "CACHE_DIR", cache_dir)  # noqa: B010 -- numba creates this name at run time
        clone.__code__ = clone.__code__.replace(co_filename=f"{cache_dir}/{CACHE_SOURCE}")
    # No algorithm divides by zero, and none creates an array: checking for that, and counting references to the arrays
    # that were passed in, would take most of the time.
    options: dict[str, Any] = {"error_model": "numpy", "nogil": True, "_nrt": allocates}
    inline = not cache_dir and len(function.__code__.co_code) <= largest
    result: Callable[..., Any] = njit(**options, cache=bool(cache_dir), forceinline=inline)(clone)
    if cache_dir:
        setattr(result, "_cache", _cache_by_name(clone))  # noqa: B010 -- numba has no public way
    return result


def _cache_by_name(function: Any) -> Any:
    """numba's cache of a function, without its closures in the key: they differ in every process."""
    from numba.core.caching import FunctionCache

    class CacheByName(FunctionCache):
        def _index_key(self, signature: Any, codegen: Any) -> Any:
            return signature, codegen.magic_tuple()

    untyped: Any = CacheByName
    return untyped(function)


def _globals_of(function: Any) -> dict[str, Any]:
    """The global names that a function looks up."""
    used = {*_global_names(function.__code__), "__name__"}
    return {name: value for name, value in function.__globals__.items() if name in used}


def _sizes(function: Any) -> dict[Any, int]:
    """The bytes of bytecode of a function, and of each that it and these call."""
    sizes = {function: len(function.__code__.co_code)}
    closures = [cell.cell_contents for cell in function.__closure__ or ()]
    for value in (*_globals_of(function).values(), *closures):
        if isinstance(value, FunctionType) and value not in sizes:
            sizes |= _sizes(value)
    return sizes


def _global_names(code: CodeType) -> set[str]:
    """Every global name that a function may look up, also in comprehensions within it."""
    inner = (value for value in code.co_consts if isinstance(value, CodeType))
    return set(code.co_names).union(*map(_global_names, inner))
