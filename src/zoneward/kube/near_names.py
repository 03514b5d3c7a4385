"""Names that a person may have meant by one that is not known."""

import heapq
from collections.abc import Iterable
from difflib import SequenceMatcher
from typing import Final

_ALIKE: Final = 0.6
"""The least similarity of two words, as in `difflib.get_close_matches`."""
_MOST: Final = 3
_MARGIN: Final = 0.1
"""How much less similar than the nearest name another one may be."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`` (did you mean 'shop'?)``, for the end of a message, or nothing where no name is near."""
    near = [repr(name) for name in near_names(word, known)]
    if not near:
        return ""
    return f" (did you mean {' or '.join(filter(None, (', '.join(near[:-1]), near[-1])))}?)"


def near_names(word: str, known: Iterable[str], *, least: float = _ALIKE) -> list[str]:
    """Up to three known names that are like ``word``, the nearest first: by ``least`` at least, where 1 is equal.

    Letter case makes no difference. A name that is equal but for it is the only answer.
    """
    folded = word.casefold()
    matcher = SequenceMatcher(autojunk=False)
    # difflib keeps what it knows of the second sequence, and compares it with many first ones.
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
