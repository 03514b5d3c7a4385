"""Codecs of the messages that the kernel takes and sends over netlink."""
