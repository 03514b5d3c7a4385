"""Pure decisions: which approach a Service gets, who consumes which endpoint, what a node's proxy selects.

Nothing here does input or output, reads a clock, draws a random number or logs. A decision passes `request` (what the
Service requests), `demand`, `hints_decision`, `balanced_decision` or `subsetting_decision` (with `rules` and
`thresholds`), an algorithm of `algorithms` (called by `allocation`), and `placement`. `selection` is what proxies make
of the result; `service_events` reports it.
"""
