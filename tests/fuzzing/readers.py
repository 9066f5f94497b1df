"""The catalogue of readers that are fuzzed."""

from typing import Final

from tests.fuzzing.array_readers import NPZ, SAFETENSORS
from tests.fuzzing.command_reader import COMMAND
from tests.fuzzing.configuration_reader import YAML
from tests.fuzzing.fuzz import Reader
from tests.fuzzing.model_readers import MINDIR, ONNX
from tests.fuzzing.run_file_reader import RUN_FILE
from tests.fuzzing.table_readers import CSV, MSPROBE, PARQUET, TENSORBOARD
from tests.fuzzing.trace_reader import TRACE

READERS: Final[dict[str, Reader]] = {
    reader.name: reader
    for reader in (
        *(YAML, COMMAND, TENSORBOARD, CSV, PARQUET, MSPROBE, NPZ, SAFETENSORS, ONNX, MINDIR, RUN_FILE, TRACE),
    )
}
