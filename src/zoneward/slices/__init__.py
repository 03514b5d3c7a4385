"""Pure: the plan of a Service, from its Pods to the EndpointSlices to write.

`plan` has the pipeline: endpoints, decide, desired, reconcile, finalize. `existing` reads the slices that are there,
and `planner` keeps what a plan can use of the one before.
"""
