"""Authentication to an API server, and trust in it: kubeconfig files, service accounts, credentials, plugins, TLS."""
