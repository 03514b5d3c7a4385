"""What a proxy sets aside it does without, and programs that it starts have it."""

import re
import subprocess
import sys
from pathlib import Path
from threading import Thread

from zoneward.proxy.machine import CAP_NET_ADMIN, drop_effective_capability

STATUS = Path("/proc/thread-self/status")
BIT = 1 << CAP_NET_ADMIN


def has(capabilities: str) -> dict[str, bool]:
    found = re.findall(r"^Cap(\w+):\s*(\w+)$", capabilities, re.MULTILINE)
    return {name: bool(int(value, 16) & BIT) for name, value in found}


def test_a_thread_drops_a_capability_and_its_child_process_has_it_again() -> None:
    before, told = has(STATUS.read_text()), list[dict[str, bool]]()

    def run() -> None:
        drop_effective_capability()
        told.append(has(STATUS.read_text()))
        program = f"print(open({str(STATUS)!r}).read())"
        started = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        told.append(has(started.stdout))

    thread = Thread(target=run)
    thread.start()
    thread.join()
    # Without the right there is nothing to set aside, and no more is there afterwards.
    assert told == [before | {"Eff": False}, before]
    assert has(STATUS.read_text()) == before
