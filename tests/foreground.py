"""Tests that press Ctrl-C, wherever they are run."""

import signal
import threading


def heed_ctrl_c() -> None:
    """Who starts a test run in the background makes it ignore Ctrl-C, and with it every command that it starts."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
