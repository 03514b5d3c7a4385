"""Files in and out: snapshots of a cluster, read, written and anonymized. Knows nothing of routing."""
