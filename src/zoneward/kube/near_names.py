"""Suggests known names for a mistyped one."""

import heapq
from collections.abc import Iterable
from difflib import SequenceMatcher
from typing import Final

_ALIKE: Final = 0.6
"""The least similarity of two words, as in `difflib.get_close_matches`."""
_MOST: Final = 3
_MARGIN: Final = 0.1
"""Largest difference in similarity to the nearest name."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`` (did you mean 'shop'?)`` for the end of a message; empty if no name is similar."""
    near = [repr(name) for name in near_names(word, known)]
    if not near:
        return ""
    return f" (did you mean {' or '.join(filter(None, (', '.join(near[:-1]), near[-1])))}?)"


def near_names(word: str, known: Iterable[str], *, least: float = _ALIKE) -> list[str]:
    """Up to three known names similar to ``word``, the nearest first; ``least`` is the lowest similarity, 1 is equal.

    Case is ignored. A name that differs only in case is the only answer.
    """
    folded = word.casefold()
    matcher = SequenceMatcher(autojunk=False)
    # difflib caches its analysis of the second sequence.
    matcher.set_seq2(folded)
    scores: list[tuple[float, str]] = []
    for name in sorted(set(known)):
        other = name.casefold()
        if other == folded:
            return [name]
        matcher.set_seq1(other)
        if matcher.real_quick_ratio() >= least and matcher.quick_ratio() >= least and matcher.ratio() >= least:
            scores.append((-matcher.ratio(), name))
    nearest = heapq.nsmallest(_MOST, scores)
    return [name for score, name in nearest if score <= nearest[0][0] + _MARGIN]
