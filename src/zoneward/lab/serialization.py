"""Serializes values for another machine: pickled, with whole numbers in as few bytes as they need.

Functions of Zoneward are sent by name, those of a custom file with their code: no other machine has that file.
pickle alone makes a task's histograms and samples several times as large.
"""

import io
import pickle
import sys
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_LEAST_SIZE: Final = 256
"""Numbers in an array from which on it is reduced; smaller ones are sent as they are."""
_SPARSE: Final = 4
"""How many times as many zeros as other numbers make positions and values smaller than the whole."""
_PROJECT: Final = __name__.partition(".")[0]

Integers = NDArray[np.int64]


def serialize(value: object, *, by_value: Sequence[Any] = ()) -> bytes:
    """A value as bytes that `deserialize` turns back into its equal.

    Functions of ``by_value`` are sent with their code, unless they are Zoneward's.
    """
    packed = io.BytesIO()
    _Pickler(packed, by_value).dump(value)
    return packed.getvalue()


def deserialize(packed: bytes) -> Any:
    """The value from the bytes of `serialize`. Runs code of their sender, as everything on such a cluster does."""
    return pickle.loads(packed)


class _Pickler(pickle.Pickler):
    def __init__(self, packed: io.BytesIO, by_value: Sequence[Any]) -> None:
        super().__init__(packed, protocol=pickle.HIGHEST_PROTOCOL)
        self.by_value = by_value

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, FunctionType):
            if value in self.by_value and value.__module__.partition(".")[0] != _PROJECT:
                return pickle.loads, (_pickle_code(value),)
        elif type(value) is np.ndarray and value.dtype == np.int64 and value.size >= _LEAST_SIZE:
            return _reduce(value) if value.flags.c_contiguous else NotImplemented
        return NotImplemented


def _pickle_code(function: FunctionType) -> bytes:
    """A function with what it calls from its own file; the other machine imports what that file imports."""
    import cloudpickle  # type: ignore[import-untyped]

    module = sys.modules.get(function.__module__)
    if (
        module is None
        or module.__name__ == "__main__"
        or module.__name__ in cloudpickle.list_registry_pickle_by_value()
    ):
        return bytes(cloudpickle.dumps(function))
    cloudpickle.register_pickle_by_value(module)
    try:
        return bytes(cloudpickle.dumps(function))
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def _reduce(whole: Integers) -> tuple[Callable[..., Integers], tuple[Any, ...]]:
    """What pickles instead of an array: of histograms, which are nearly empty, only what is not zero."""
    filled = np.flatnonzero(whole)
    if _SPARSE * len(filled) < whole.size:
        return _restore_sparse, (whole.shape, *_narrow(np.diff(filled, prepend=0)), *_narrow(whole.ravel()[filled]))
    return _widen, _narrow(whole)


def _narrow(whole: Integers) -> tuple[int, NDArray[Any]]:
    """The least number, and how much each is above it, in the narrowest type that is not reduced again."""
    low, high = (int(whole.min()), int(whole.max())) if whole.size else (0, 0)
    if high - low < 1 << 32:
        return low, (whole - low).astype(np.min_scalar_type(high - low))
    return 0, whole.view(np.uint64)


def _widen(low: int, narrow: NDArray[Any]) -> Integers:
    return narrow.astype(np.int64) + low


def _restore_sparse(shape: tuple[int, ...], step: int, steps: NDArray[Any], low: int, values: NDArray[Any]) -> Integers:
    whole = np.zeros(shape, np.int64)
    whole.ravel()[np.cumsum(_widen(step, steps))] = _widen(low, values)
    return whole
