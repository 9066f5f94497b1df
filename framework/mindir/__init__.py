"""Networks as files: `export` captures a network and writes its graph, `load` reads it, `nn.GraphCell` runs it.

    export(net, x, file_name="net.mindir")
    net = nn.GraphCell(load("net.mindir"))

The file holds the whole function and its weights; the Python code that it came from is not needed to run or train it.
"""

from ..ir.files import MindIRError, load
from .exporting import export
from .graph import graph_of
from .graph_cell import GraphCell

__all__ = ["GraphCell", "MindIRError", "export", "graph_of", "load"]
