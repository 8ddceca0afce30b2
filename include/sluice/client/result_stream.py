"""A task's results as they come: batches of an Arrow stream, and at its end what is said about them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import requests
from urllib3.exceptions import HTTPError

from sluice.client.errors import Broken

#: The key of what is said of the rows, in the metadata of the stream's last batch.
ABOUT = b"sluice"


class Rows:
    """The batches of an answer. `about` is there once they were all read. Raises Broken."""

    def __init__(self, answer: requests.Response) -> None:
        self._answer = answer
        answer.raw.decode_content = True
        self.about: Mapping[str, Any] = {}
        try:
            self._reader = pa.ipc.open_stream(pa.PythonFile(_Body(answer.raw), mode="r"))
        except (pa.ArrowInvalid, HTTPError, OSError) as error:
            raise Broken(f"the answer is no Arrow stream: {error}") from error
        self.schema = self._reader.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            for batch, metadata in self._reader.iter_batches_with_custom_metadata():
                if metadata is not None and ABOUT in metadata:
                    self.about = json.loads(metadata[ABOUT])
                if batch.num_rows:
                    yield batch
        except (pa.ArrowInvalid, HTTPError, OSError) as error:
            raise Broken(f"the answer ended half-way: {error}") from error
        if not self.about:
            raise Broken("the answer ended half-way: ask again")


class _Body:
    """The body of an answer as Arrow reads files: a read gives as much as it asks for, except at the end."""

    closed = False

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    def read(self, size: int = -1) -> bytes:
        parts = []
        while size != 0 and (part := self._raw.read(None if size < 0 else size)):
            parts.append(part)
            size -= len(part) if size > 0 else 0
        return b"".join(parts)

    def close(self) -> None:
        """Who opened the answer closes it."""
