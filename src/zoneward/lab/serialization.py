"""Values on their way to another machine, and back: pickled, with whole numbers in as few bytes as they need.

Functions of Zoneward travel by name, those of a user's own file with their code: no other machine has that file.
"""

import io
import pickle
import sys
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_WORTHWHILE: Final = 256
"""Numbers in an array from which on it is looked at; smaller ones travel as they are."""
_SPARSE: Final = 4
"""How many times as many zeros as other numbers make positions and values smaller than the whole."""
_PROJECT: Final = __name__.partition(".")[0]

Integers = NDArray[np.int64]


def serialize(value: object, *, by_value: Sequence[Any] = ()) -> bytes:
    """A value as bytes that `deserialize` turns back into its equal.

    Functions of ``by_value`` travel with their code, unless they are Zoneward's.
    """
    packed = io.BytesIO()
    _Packer(packed, by_value).dump(value)
    return packed.getvalue()


def deserialize(packed: bytes) -> Any:
    """What was put into a serialize. It runs code of whoever made it, as everything on such a cluster does."""
    return pickle.loads(packed)


class _Packer(pickle.Pickler):
    def __init__(self, packed: io.BytesIO, by_value: Sequence[Any]) -> None:
        super().__init__(packed, protocol=pickle.HIGHEST_PROTOCOL)
        self.by_value = by_value

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, FunctionType):
            if value in self.by_value and value.__module__.partition(".")[0] != _PROJECT:
                return pickle.loads, (_with_code(value),)
        elif type(value) is np.ndarray and value.dtype == np.int64 and value.size >= _WORTHWHILE:
            return _reduced(value) if value.flags.c_contiguous else NotImplemented
        return NotImplemented


def _with_code(function: FunctionType) -> bytes:
    """What it calls from its own file goes with it; what that file imports is imported there."""
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


def _reduced(whole: Integers) -> tuple[Callable[..., Integers], tuple[Any, ...]]:
    """What pickles instead of an array. Histograms are nearly empty: of those only what is not zero."""
    filled = np.flatnonzero(whole)
    if _SPARSE * len(filled) < whole.size:
        return _scattered, (whole.shape, *_narrow(np.diff(filled, prepend=0)), *_narrow(whole.ravel()[filled]))
    return _widened, _narrow(whole)


def _narrow(whole: Integers) -> tuple[int, NDArray[Any]]:
    """The least number, and how much each is above it, in the narrowest type; never one that would be reduced again."""
    low, high = (int(whole.min()), int(whole.max())) if whole.size else (0, 0)
    if high - low < 1 << 32:
        return low, (whole - low).astype(np.min_scalar_type(high - low))
    return 0, whole.view(np.uint64)


def _widened(low: int, narrow: NDArray[Any]) -> Integers:
    return narrow.astype(np.int64) + low


def _scattered(shape: tuple[int, ...], step: int, steps: NDArray[Any], low: int, values: NDArray[Any]) -> Integers:
    whole = np.zeros(shape, np.int64)
    whole.ravel()[np.cumsum(_widened(step, steps))] = _widened(low, values)
    return whole
