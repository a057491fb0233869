"""``CALL WORDS...``: `halowire WORDS...`, whose launcher dies with SIGKILL right after its ``CALL``-th rename."""

import os
import signal
import sys

from halowire import files
from halowire.cli.main import main

COUNT = [0]


def watched(function):
    def call(*args, **more):
        result = function(*args, **more)
        COUNT[0] += 1
        if COUNT[0] == int(sys.argv[1]):
            os.killpg(os.getpgrp(), signal.SIGKILL)
        return result

    return call


os.rename, os.replace, files._exchange = map(watched, (os.rename, os.replace, files._exchange))
sys.exit(main(sys.argv[2:]))
