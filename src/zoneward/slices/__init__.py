"""Pure: the plan of a Service, from its Pods to the EndpointSlices to write.

`plan` has the pipeline, endpoints -> decide -> assign -> encode -> pack -> changes, with a module for each step.
`existing` reads the slices that are there, and `planner` keeps what a plan can use of the one before.
"""
