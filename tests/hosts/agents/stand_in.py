"""Stands in for an agent's JVM: ``stand_in.py @java.args``. It runs, and shows counters of all components.

The file ``size`` in the agent's folder says how many blocks are in its channel; they stay there.
"""

from __future__ import annotations

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

_arguments = Path(sys.argv[1].removeprefix("@")).read_text().splitlines()


def _given(name: str) -> str:
    return next(each.partition("=")[2] for each in _arguments if each.startswith(f"-D{name}="))


_state = Path(_given("sluice.folder"))


class _Counters(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        size = _state / "size"
        runs = {"StartTime": "1"}
        held = size.read_text() if size.exists() else "0"
        counters = {
            "SOURCE.edges": runs,
            "SOURCE.taking": {"Taking": "0"},
            "CHANNEL.buffer": {**runs, "ChannelSize": held, "ChannelFillPercentage": "0"},
            "SINK.kafka": runs,
        }
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(counters).encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


if __name__ == "__main__":
    (_state / "channel").mkdir(exist_ok=True)
    _address = (os.environ["EMULATED_LOOPBACK"], int(_given("flume.monitoring.port")))
    HTTPServer(_address, _Counters).serve_forever()
