"""Benchmarks of speed and memory: ``make bench``, or ``python -m bench NAME...`` for some of them."""
