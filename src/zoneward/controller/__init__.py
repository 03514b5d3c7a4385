"""The EndpointSlice controller: it keeps a cluster's EndpointSlices as `zoneward.slices` plans them."""
