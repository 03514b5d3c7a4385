"""Algorithms that turn demand and supply into an allocation.

`zoneward.routing.algorithms.signature` says what an algorithm takes and returns. To add one, write a file here and a
line in `zoneward.routing.algorithms.heuristics`.
"""
