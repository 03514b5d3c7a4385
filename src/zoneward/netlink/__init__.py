"""Messages that the kernel takes and sends over netlink, as bytes."""
