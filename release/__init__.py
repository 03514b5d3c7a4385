"""What makes the things of a release, each one file run as ``python -m release.NAME``: docs/releasing.md."""
