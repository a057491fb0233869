"""`python -m halowire`: the command line, also for torchrun."""

import os
import sys

from halowire.cli.main import main

code = main()
if "RANK" in os.environ:  # a worker, started by a launcher
    from halowire.worker import leave

    leave(code)
sys.exit(code)
