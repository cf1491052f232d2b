"""The command line, for programs that start it many times: one process imports it, and runs each command in a child."""

import contextlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

CLIENT = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    socket.send_fds(server, [json.dumps([os.getcwd(), *sys.argv[1:]]).encode()], [0, 1, 2])
    sys.exit(int(server.recv(16)))
"""


@contextlib.contextmanager
def served_command(folder):
    """Return a program that is called as the command is. The server ends after it."""
    address, program = str(Path(folder, "socket")), Path(folder, "fitnoise")
    program.write_text(CLIENT.format(python=sys.executable, address=address), encoding="utf-8")
    program.chmod(0o755)
    with subprocess.Popen([sys.executable, __file__, address], stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout.readline() == b"ready\n"
            yield str(program)
        finally:
            server.terminate()


def serve(address):
    import duckdb  # noqa: F401 - imported once, here
    import pandas as pd  # noqa: F401
    import pyarrow.parquet  # noqa: F401

    from fitnoise import publishing  # noqa: F401
    from fitnoise.interfaces import cli

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        print("ready", flush=True)  # noqa: T201 - to the process that waits
        while True:
            connection, _ = listener.accept()
            message, descriptors, _, _ = socket.recv_fds(connection, 2**16, 3)
            child = os.fork()
            if not child:
                run(cli.main, *json.loads(message), descriptors=descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
            _, status = os.waitpid(child, 0)
            connection.sendall(str(os.waitstatus_to_exitcode(status)).encode())
            connection.close()


def run(main, folder, *arguments, descriptors):
    """Run a command in this process, and end it."""
    code = 1
    try:
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
        os.chdir(folder)
        main(arguments)
        code = 0
    except SystemExit as end:
        code = end.code or 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1])
