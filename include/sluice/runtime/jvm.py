"""How a JVM is started: class path, heap, and the caps that keep small daemons small."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path, PurePath

from sluice.runtime.settings import ROOT

LIB = Path(os.environ.get("SLUICE_LIB") or ROOT / "var" / "lib")
STAMP = ".stamp"  # in a component's folder: changes when its jars do

#: Spark's classes (sluice.spark.class_archive). A JVM that does not find this file runs without it.
SPARK_CLASSES = LIB / "spark-classes.jsa"
#: The options of Spark's JVMs on every machine. The archive is an option only on this one.
SPARK_ANYWHERE = ("-Djava.net.preferIPv4Stack=true", "-Duser.timezone=UTC")
SPARK_ARCHIVE = f"-XX:SharedArchiveFile={SPARK_CLASSES}"
#: The second compiler (C2) compiles code only after it ran ten times as often as usual: in a job of seconds
#: C2 costs more than it saves, and in a long job it starts only a moment later.
SPARK_COMPILES_LATER = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
SPARK_OPTIONS = (*SPARK_ANYWHERE, SPARK_ARCHIVE, *SPARK_COMPILES_LATER)
#: For a JVM that lives for seconds: without C2 Spark starts with half the CPU time.
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

# The options that Hadoop and HBase need on Java 17, as their own start scripts list them.
HADOOP_OPENS = ("--add-opens=java.base/java.lang=ALL-UNNAMED",)
HBASE_OPENS = (
    "-Dorg.apache.hbase.thirdparty.io.netty.tryReflectionSetAccessible=true",
    "--add-modules=jdk.unsupported",
    *(
        f"--add-opens=java.base/{package}=ALL-UNNAMED"
        for package in (
            "java.nio",
            "sun.nio.ch",
            "java.lang",
            "jdk.internal.ref",
            "java.lang.reflect",
            "java.util",
            "java.util.concurrent",
        )
    ),
    "--add-exports=java.base/jdk.internal.misc=ALL-UNNAMED",
    "--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
)


def java() -> str:
    """The java of JAVA_HOME, or else the one on the PATH."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else "java"


def java_command(
    component: str,
    main_class: str,
    args: Sequence[str] = (),
    *,
    heap: str,
    options: Sequence[str] = (),
    classpath: Sequence[Path | PurePath] = (),
    lib: Path | PurePath | None = None,
    quick: bool = False,
) -> list[str]:
    """The command line that runs ``main_class`` from the jars of ``component``.

    ``component`` is a module of the poms. ``classpath`` lists directories of configuration and comes before
    the jars, which lie in ``lib``, by default this machine's. ``quick`` compiles with C1 alone: a process
    that does little starts in half the time and takes 30 MB less.
    """
    path = os.pathsep.join([*(str(entry) for entry in classpath), str((lib or LIB / component) / "*")])
    return [
        java(),
        "-Xms32m",
        f"-Xmx{heap}",
        "-Xss512k",
        "-XX:+UseSerialGC",
        # With these SerialGC gives back what only the start-up needed; else the heap stays at its peak size.
        "-XX:MinHeapFreeRatio=20",
        "-XX:MaxHeapFreeRatio=40",
        "-XX:MaxMetaspaceSize=160m",
        "-XX:ReservedCodeCacheSize=64m",
        "-XX:+ExitOnOutOfMemoryError",
        *(["-XX:TieredStopAtLevel=1"] if quick else []),
        "-Djava.awt.headless=true",
        "-Djava.net.preferIPv4Stack=true",
        *options,
        "-cp",
        path,
        main_class,
        *args,
    ]
