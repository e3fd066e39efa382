"""Ask the process of ``forking.py`` for a fork, and be it from outside: streams, signals and exit code.

Only small modules of the standard library are imported: this runs once for each command, as a script. Its
first argument is the socket; the others are those of a Python interpreter, ``-c`` or ``-m`` first. Where the
environment asks the interpreter itself for something, an interpreter is started.
"""

import os
import signal
import sys
from socket import AF_UNIX, SOCK_STREAM, send_fds, socket

#: What the interpreter, or the C library, reads as it starts.
_READ_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "OMP_", "OPENBLAS_")


def read_at_start(environment):
    """Return the variables that cannot be changed any more when a process forks, by name and value."""
    return {k: environment[k] for k in sorted(environment) if k.startswith(_READ_AT_START)}


def main():
    place, *arguments = sys.argv[1:]
    environment = dict(os.environ)
    with open(f"{place}.environment") as file:
        if file.read() != repr(read_at_start(environment)):
            os.execv(sys.executable, [sys.executable, *arguments])
    server = socket(AF_UNIX, SOCK_STREAM)
    server.connect(place)
    told = repr((arguments, environment, os.getcwd())).encode()
    send_fds(server, [len(told).to_bytes(8, "big")], [0, 1, 2])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda which, _: server.send(bytes([which])))
    server.sendall(told)
    ended = b""
    while len(ended) < 8 and (part := server.recv(8 - len(ended))):
        ended += part
    status = int.from_bytes(ended, "big", signed=True) if len(ended) == 8 else -signal.SIGKILL
    if status < 0:
        signal.signal(-status, signal.SIG_DFL) if -status != signal.SIGKILL else None
        os.kill(os.getpid(), -status)
    os._exit(status)


if __name__ == "__main__":
    main()
