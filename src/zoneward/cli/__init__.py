"""The command line, a file per command: the only place where parts are put together."""
