"""Stores that pass records on through a message broker, and the collector that drains them into a store.

Start reading in `stream_store.py`, the sending side, then `collector.py`, the receiving one. `transport.py` is what
both ask of a broker; `nats_transport.py` and `kafka_transport.py` answer it.
"""
