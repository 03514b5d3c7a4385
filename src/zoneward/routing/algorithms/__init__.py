"""Rules that turn demand and supply into an allocation, a file each.

Every rule is one function over small flat arrays of whole numbers, for n zones in name order:

``demand[n]``
    weight of each zone (milli-CPU or nodes), 0 for a zone that only has endpoints.
``supply[n]``
    ready endpoints located in each zone.
``parameters``
    whole numbers; what they mean is the rule's own business.
``previous[n * n]``
    at ``located * n + consumer``: endpoints that were placed before and still are there.
``allocation[n * n]``
    the answer, in the same layout, written by the function; it comes in full of zeros.
``scratch``
    room for `SCRATCH_PER_ZONE` numbers a zone, so that nothing is allocated inside.

It returns `ALLOCATED`, or `IMPOSSIBLE` when no allocation may be made. The functions only index their arrays and use no
dictionary, object or string, so that lists serve as well as numpy arrays, and a compiler can take them as they are.
"""
