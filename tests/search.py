"""``make search``: the properties with random examples, in rounds with a new seed each, until one fails or the time is
over.

A round that has begun is finished. ``SEARCH_MINUTES`` (10) says how long to search, ``WORKERS`` in how many processes.
"""

import os
import shlex
import subprocess
import sys
from random import SystemRandom
from time import monotonic


def search(minutes: float, workers: str) -> int:
    """Returns the exit status: 1 where a property failed."""
    end = monotonic() + minutes * 60
    rounds = 0
    while not rounds or monotonic() < end:
        rounds += 1
        seed = SystemRandom().getrandbits(32)
        command = ["pytest", "tests", "--properties", "--hypothesis-profile=search", f"--hypothesis-seed={seed}"]
        again = f"PYTHONHASHSEED={seed} {shlex.join(['.venv/bin/pytest', *command[1:]])}"
        print(f"round {rounds}: {again}", flush=True)
        done = subprocess.run(
            [sys.executable, "-m", *command, "--exitfirst", "-n", workers],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            check=False,
        )
        if done.returncode:
            print(f"round {rounds} failed; this repeats it, alone with the test's name in place of 'tests':\n{again}")
            return 1
    print(f"{rounds} rounds in {(monotonic() - end) / 60 + minutes:.0f} minutes, no property failed")
    return 0


if __name__ == "__main__":
    sys.exit(search(float(os.environ.get("SEARCH_MINUTES") or 10), os.environ.get("WORKERS") or "0"))
