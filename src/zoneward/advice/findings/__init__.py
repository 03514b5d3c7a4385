"""Pure: what keeps a cluster from zone aware routing, as findings with codes. `codes.CODES` lists every one."""
