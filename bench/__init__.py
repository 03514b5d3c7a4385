"""Speed and memory, measured: ``make bench``, or ``python -m bench NAME...`` for some of it."""
