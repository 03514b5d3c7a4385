"""Pure decisions: which approach a Service gets, who consumes which endpoint, what a node's proxy selects.

Nothing here does input or output, reads a clock, draws a random number or logs.
"""
