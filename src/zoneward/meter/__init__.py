"""The meter of a node: connections and bytes to Services by zone, read from connection tracking beside any proxy."""
