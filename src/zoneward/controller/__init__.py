"""The loop that keeps a cluster's EndpointSlices as `zoneward.slices` plans them."""
