"""What a look at the operators of one step leaves in a run."""

LOOKED = {
    "began": 1000.0,
    "seconds": 0.1,
    "names": ["matmul", "exp"],
    "sites": ["", "head"],
    "spans": [[0, "forward", 1, 0.01, 0.03, 0], [1, "forward", 1, 0.02, 0.01, 0]],
    "left_out": 0,
    "table": [["matmul", "forward", 1, 0.03, 0.02, 800], ["exp", "forward", 1, 0.01, 0.01, 200]],
    "memory": [[0.01, 800], [0.02, 1000], [0.05, 0]],
    "peak_bytes": 1000,
    "holders": [["head", "matmul", "forward", 800], ["head", "exp", "forward", 200]],
}
