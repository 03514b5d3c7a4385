"""One sync of a Service: the plan, its writes, and what is kept between syncs."""
