"""Starts Airflow's API server with bounds that Airflow has no settings for.

``python -P server.py`` does what ``airflow api-server`` does. Airflow hands uvicorn few of its options; this
adds the protocol with bounds, also over TLS, no web sockets, and the application behind
`sluice_airflow.front`.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

import uvicorn

PLUGINS = str(Path(__file__).resolve().parents[1])
BACKLOG = 256


def main() -> None:
    if PLUGINS not in sys.path:
        sys.path.append(PLUGINS)
    from airflow.__main__ import main as airflow

    from sluice.runtime.settings import get_settings
    from sluice.stack.tls import Context
    from sluice_airflow.front.head import HEAD_BYTES
    from sluice_airflow.front.protocol import BoundedProtocol
    from sluice_airflow.front.secure import SecureProtocol

    serve = uvicorn.run

    @functools.wraps(serve)
    def bounded(app: str, **options: Any) -> None:
        secured = options.get("ssl_certfile")
        plain = {name: value for name, value in options.items() if not name.startswith("ssl_")}
        protocol: Any = BoundedProtocol
        if secured:  # the protocol itself speaks TLS
            protocol = functools.partial(SecureProtocol, context=Context(get_settings()))
            plain["loop"] = "asyncio"
        serve(
            "sluice_airflow.front.app:app",
            **plain,
            http=protocol,
            ws="none",
            backlog=BACKLOG,
            h11_max_incomplete_event_size=HEAD_BYTES,
            server_header=False,
        )

    uvicorn.run = bounded  # type: ignore[assignment] # Airflow calls it by this name
    sys.argv[1:] = ["api-server"]
    airflow()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
