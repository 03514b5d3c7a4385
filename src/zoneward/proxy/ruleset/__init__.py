"""The rules of a node: as values, their differences, and as commands of nft."""
