"""``python -m zoneward``."""

from zoneward.cli.main import main

main()
