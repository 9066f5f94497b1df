"""`python -m mindscope`: the same as the `mindscope` command."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
