"""An API server in memory: for people without a cluster, for the demo, and for tests. It imports only `kube`."""
