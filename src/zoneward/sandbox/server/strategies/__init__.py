"""What Kubernetes adds to objects of each kind, and refuses: one module a kind."""
