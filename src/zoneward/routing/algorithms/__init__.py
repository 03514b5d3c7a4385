"""Rules that turn demand and supply into an allocation, a file each.

Every rule is one function over small flat arrays, for n zones in name order. What it allocates are groups of endpoints:
first the n own groups, one for each zone, then groups that several zones consume. A group may be empty.

``demand[n]``
    weight of each zone (milli-CPU or nodes), whole; 0 for a zone that only has endpoints.
``supply[n]``
    ready endpoints located in each zone.
``parameters``
    whole numbers; first the threshold that overload has to stay below, as numerator and denominator. What more there is
    is the rule's own business.
``previous[n * n]``
    at ``group * n + located``: endpoints that were in one of the own groups before and still are there.
``composition[most_groups(n) * n]``
    the answer, in the same layout, written by the function; it comes in full of zeros.
``weights[most_groups(n) * n]``
    the other half of the answer, at ``group * n + consumer``: how much of a zone's traffic an endpoint of the group
    gets, beside those of the other groups that the zone consumes; 0 where it consumes none. It comes in full of zeros.
``scratch``, ``reals``
    room for `SCRATCH_PER_ZONE` whole and `REALS_PER_ZONE` real numbers a zone, so that nothing is allocated inside.

It returns the number of groups, or `IMPOSSIBLE` when no allocation may be made. The functions only index their arrays
and use no dictionary, object or string, so that lists serve as well as numpy arrays, and a compiler can take them as
they are (`zoneward.routing.numba_compiler`).

A zone's traffic goes to a group g in proportion to ``n_g * w_g``, and evenly to the endpoints in it; zones that share
an own group's weight of 1 with nobody send all their traffic there.
"""
