"""`python -m halowire`: the command line, also for torchrun."""

import sys

from halowire.cli.main import main

sys.exit(main())
