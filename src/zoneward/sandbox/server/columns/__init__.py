"""What ``kubectl get`` shows of each kind: its columns, and their cells as upstream's server fills them."""
