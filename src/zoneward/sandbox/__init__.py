"""An API server in memory, for those without a cluster, for the demonstration and for tests. Stands on `kube` alone."""
