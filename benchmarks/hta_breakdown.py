"""What Holistic Trace Analysis says of one trace, as JSON: run by a Python in which it is installed.

python benchmarks/hta_breakdown.py TRACE
"""

import json
import logging
import os
import sys
import warnings

if __name__ == "__main__":
    os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    from hta.trace_analysis import TraceAnalysis

    found = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="/", include_last_profiler_step=True)
    times = found.get_temporal_breakdown(visualize=False).iloc[0]
    idle, _ = found.get_idle_time_breakdown(ranks=[0], consecutive_kernel_delay=5, visualize=False)
    queues = found.get_queue_length_summary(ranks=[0])["queue_length"]["max"]
    answer = {
        "idle": float(times["idle_time(us)"]),
        "computing": float(times["compute_time(us)"]),
        "neither": float(times["non_compute_time(us)"]),
        "overlap": float(found.get_comm_comp_overlap(visualize=False)["comp_comm_overlap_pctg"].iloc[0]),
        "host wait": float(idle["idle_time"][idle["idle_category"] == "host_wait"].sum()),
        "longest queue": float(queues.max()),
    }
    print(json.dumps(answer))
