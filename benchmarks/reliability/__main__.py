"""`python benchmarks/reliability`: the folder is a program, so the repository's root takes its place on the path."""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[2])

from benchmarks.reliability.command import main  # noqa: E402

if __name__ == "__main__":
    main()
