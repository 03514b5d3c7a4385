"""Where objects come from: snapshot files, the live API, the sandbox. Knows nothing of routing."""
