"""Ports of the loopback address for servers of these suites: below those that the kernel hands to outgoing connections, so
that no connection takes one before its server does, or while the server is down.

As a program: so many of them, in one line.
"""

import random
import socket
import sys
import time


def free_ports(count):
    """Different ones that nobody has now."""
    found = []
    while len(found) < count:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in found:
            found.append(port)
    return found


def await_server(port):
    """Waits until a server of this machine listens there."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise AssertionError("the server did not start")


if __name__ == "__main__":
    print(*free_ports(int(sys.argv[1])))
