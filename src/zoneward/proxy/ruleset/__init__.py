"""The rules of a node as values, and as text for nft."""
