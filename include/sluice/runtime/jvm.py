"""How a JVM is started: one place for the class path, the heap and the caps that keep small daemons small."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from sluice.runtime.settings import ROOT

LIB = Path(os.environ.get("SLUICE_LIB") or ROOT / "var" / "lib")

#: Spark's classes (sluice.spark.class_archive). A JVM that finds no such file goes on without.
SPARK_CLASSES = LIB / "spark-classes.jsa"
#: What a JVM of Spark is started with anywhere, and what one of this machine is.
SPARK_ANYWHERE = ("-Djava.net.preferIPv4Stack=true", "-Duser.timezone=UTC")
SPARK_ARCHIVE = f"-XX:SharedArchiveFile={SPARK_CLASSES}"
#: The second compiler takes up what ran ten times as often as usual: in a job of seconds it spends more than
#: it spares, to a long one it comes a moment later.
SPARK_COMPILES_LATER = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
SPARK_OPTIONS = (*SPARK_ANYWHERE, SPARK_ARCHIVE, *SPARK_COMPILES_LATER)
#: For a JVM that lives for seconds: without the second compiler Spark starts with half the CPU time.
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

# What Hadoop and HBase reach into on Java 17 (the list of Hadoop's and HBase's own start scripts).
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
    classpath: Sequence[Path] = (),
    quick: bool = False,
) -> list[str]:
    """The command line of ``main_class`` out of the jars of ``component`` (a module of the poms).

    ``classpath`` comes before the jars: directories of configuration. ``quick`` compiles with C1 alone: a
    process that does little starts in half the time and keeps 30 MB less.
    """
    path = os.pathsep.join([*(str(entry) for entry in classpath), str(LIB / component / "*")])
    return [
        java(),
        "-Xms32m",
        f"-Xmx{heap}",
        "-Xss512k",
        "-XX:+UseSerialGC",
        # SerialGC returns what a start-up needed once: without these the heap stays at its high-water mark.
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
