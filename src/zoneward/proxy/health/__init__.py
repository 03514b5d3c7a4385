"""What load balancers and scripts ask a node's proxy over HTTP."""
