"""What a script was given that is not there or does not answer is told in one line, in place of a traceback.

import plain_errors
plain_errors.use()  # under __name__ == "__main__" where tests import the script, too
"""

import json
import os
import subprocess
import sys
import urllib.error


def line_of(error):
    """One line, or None for what is no fault of path, server, program or package."""
    if isinstance(error, ModuleNotFoundError):
        return f"there is no package {error.name} in {sys.executable}"
    if isinstance(error, subprocess.CalledProcessError):
        command = error.cmd if isinstance(error.cmd, str) else " ".join(map(str, error.cmd))
        return f"{command} ended with {error.returncode}"
    if isinstance(error, urllib.error.HTTPError):
        return f"{error.url} answers {error.code} {error.reason}"
    if isinstance(error, json.JSONDecodeError):
        return f"not the JSON that is expected: {error}"
    if not isinstance(error, OSError):
        return None
    named = isinstance(error.filename, (str, bytes, os.PathLike))
    return f"{os.fsdecode(error.filename)}: {error.strerror}" if named else str(error)


def use():
    def tell(kind, error, trace):
        line = line_of(error)
        if line is None:
            sys.__excepthook__(kind, error, trace)
        else:
            print(f"{os.path.basename(sys.argv[0])}: {line}", file=sys.stderr)

    sys.excepthook = tell
