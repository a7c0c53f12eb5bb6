"""Waiting in the tests that are Python programs."""

import time


def wait_for(condition, what, seconds=90):
    """Returns the value of `condition` once it is true. Most conditions start a process: they may take a fifth of the time."""
    end = time.monotonic() + seconds
    while True:
        begun = time.monotonic()
        if found := condition():
            return found
        now = time.monotonic()
        if now > end:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(min(1, max(0.02, 4 * (now - begun))))
