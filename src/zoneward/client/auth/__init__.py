"""Who we are to an API server and whom we trust: kubeconfig files, service accounts, credentials, plugins, TLS."""
