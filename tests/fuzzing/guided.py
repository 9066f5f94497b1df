"""Inputs that atheris finds: it changes what reached new lines of ours further, in a process of its own.

    PYTHONPATH=.atheris python -m tests.fuzzing.guided csv --inputs 10000 --seed 0

The judge is the one of `fuzz`. libFuzzer ends the process at the first failure, with the input in the file that its
last lines name, and else when all inputs have been tried.
"""

import argparse
import sys
import tempfile
import warnings
from pathlib import Path

import atheris

#: Bytes of the longest input: what is odd about a reader is mostly near the beginning of its file.
_LONGEST = 1 << 16


def main() -> None:
    """Fuzz one reader; never returns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reader")
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with atheris.instrument_imports(include=["mindscope"], enable_loader_override=False):
        from tests.fuzzing.fuzz import LIMIT_S, FuzzReport, judge, remove
        from tests.fuzzing.readers import READERS
    reader, folder = READERS[options.reader], Path(tempfile.mkdtemp(prefix="guided"))
    valid, corpus, place = folder / "valid", folder / "corpus", folder / "input"
    valid.mkdir()
    corpus.mkdir()
    seeds = reader.seeds(valid)
    for number, data in enumerate(seeds):
        (corpus / str(number)).write_bytes(data)
    place.mkdir()
    reader.read(seeds[0], place)  # what is imported and compiled then is no matter of the inputs
    remove(place)
    warnings.simplefilter("ignore")
    report = FuzzReport(reader.name)

    def one(data: bytes) -> None:
        place.mkdir()
        judge(reader, report.inputs, data, place, report)
        remove(place)
        if report.failures:
            raise AssertionError(report.words())

    flags = [f"-runs={options.inputs}", f"-seed={options.seed + 1}", f"-max_len={_LONGEST}", "-print_final_stats=1"]
    limits = [f"-timeout={int(LIMIT_S * 30)}", "-rss_limit_mb=4096", f"-artifact_prefix={folder}/"]
    atheris.Setup([sys.argv[0], *flags, *limits, str(corpus)], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
