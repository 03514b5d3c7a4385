"""Changes of what all Services share."""

from zoneward.slices.plan import ClusterState


def concerns_all(before: ClusterState, after: ClusterState) -> bool:
    """Whether every Service has to be planned again, for other reasons than the Nodes that its own Pods run on.

    Zones of Nodes are not looked at one by one: they concern the Services that have Pods there. But where no Node is
    known at all, Pods count without one.
    """
    return (
        before.demand != after.demand
        or bool(before.node_zones) != bool(after.node_zones)
        or before.configuration != after.configuration
        or (before.pods_known, before.consumer) != (after.pods_known, after.consumer)
    )
