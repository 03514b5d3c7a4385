"""Pure: endpoints, a decision and existing EndpointSlices in; slices to create, update and delete out, with least
change.
"""
