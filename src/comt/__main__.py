"""``python -m comt``: the command ``comt``."""

import sys

from comt.cli import main

if __name__ == "__main__":
    sys.exit(main())
