"""The laboratory's own Java classes: assignors that are asked, a consumer and a producer of Kafka's."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from filelock import FileLock

from sluice.runtime.jvm import LIB, STAMP
from sluice.stack.jars import compile_classes, require

JAVA = Path(__file__).parent / "java"
CLASSES = LIB / "lab"


def java_classes() -> Path:
    """The folder of the classes; compiled against Kafka's jars unless they are of the same sources and jars.

    Raises JarsMissing.
    """
    kafka, sources = require("kafka"), sorted(JAVA.glob("*.java"))
    digest = hashlib.sha256((kafka / STAMP).read_bytes())
    for source in sources:
        digest.update(source.read_bytes())
    with FileLock(LIB / ".lab.lock", mode=0o600):
        stamp = CLASSES / STAMP
        if not stamp.exists() or stamp.read_text() != digest.hexdigest():
            shutil.rmtree(CLASSES, ignore_errors=True)
            compile_classes(sources, CLASSES, str(kafka / "*"))
            stamp.write_text(digest.hexdigest())
    return CLASSES
