"""What the reasoned list says of jars: which classes nobody refers to.

A class names every class that it uses in its constants, so a search of its bytes finds them.
"""

from __future__ import annotations

import functools
import importlib.util
import re
import zipfile
from pathlib import Path

import pytest

from sluice.runtime.jvm import LIB
from sluice.stack.environment import spark_home

pytestmark = [pytest.mark.slow, pytest.mark.long]

#: netty's own jars, and Spark's shell for Connect, which brings a netty: nothing starts the shell, and its
#: folder is in no class path.
OWN = ("netty-", "hbase-shaded-netty", "spark-connect-client-jvm_2.13")
NETTY = re.compile(rb"(?:org/apache/hbase/thirdparty/)?io/netty/[A-Za-z0-9_/]+")
FOLDERS = {name: LIB / name for name in ("flume", "hbase", "metastore")} | {"pyspark": spark_home() / "jars"}
HBASE_NETTY = "org/apache/hbase/thirdparty/io/netty/"
PARTS = (
    "handler/codec/http",
    "handler/codec/dns",
    "handler/codec/haproxy",
    "handler/codec/mqtt",
    "handler/codec/redis",
    "handler/codec/smtp",
    "handler/codec/stomp",
    "handler/codec/compression",
    "handler/proxy",
    "handler/ipfilter",
    "handler/ssl/Sni",
    "handler/ssl/ocsp",
    "resolver/dns",
    "channel/epoll/EpollDomain",
    "channel/kqueue",
)
IN_HBASE = tuple(HBASE_NETTY + part for part in PARTS)
IN_SPARK = tuple("io/netty/" + part for part in PARTS if part.startswith("handler/"))
LANG, PROTOCOL_BUFFERS = "org/apache/commons/lang/ClassUtils", "com/google/protobuf/"
TELNET, YAML = "org/jline/builtins/telnet/", "configuration2/YAMLConfiguration"
LOCAL_TASKS, XXHASH = "hive/ql/exec/SecureCmdDoAs", "net/jpountz/xxhash/"
OF_KAFKA = b"kafka/shaded/com/google/"  # a newer copy of its own
LOOKED_FOR = (
    HBASE_NETTY + "handler/ssl/SslHandler",
    *IN_HBASE,
    *IN_SPARK,
    *(LANG, PROTOCOL_BUFFERS, TELNET, YAML, LOCAL_TASKS, XXHASH),
)


@functools.cache
def _users(folder: str) -> dict[str, set[str]]:
    """For each of the beginnings: the classes in the folder's jars that use a class of such a name."""
    others = tuple(part for part in LOOKED_FOR if "io/netty/" not in part)
    found: dict[str, set[str]] = {part: set() for part in LOOKED_FOR}
    for path in FOLDERS[folder].rglob("*.jar"):
        name = re.sub("-[0-9].*", "", path.name)
        if name.startswith(OWN):
            continue
        with zipfile.ZipFile(path) as jar:
            for entry in jar.namelist():
                code = jar.read(entry) if entry.endswith(".class") else b""
                code = code.replace(OF_KAFKA, b"")
                used = {match.decode() for match in NETTY.findall(code)} if b"io/netty/" in code else set()
                parts = {part for part in LOOKED_FOR if any(one.startswith(part) for one in used)}
                for part in parts.union(part for part in others if part.encode() in code):
                    found[part].add(f"{name}: {entry.rsplit('/', 1)[-1]}")
    return found


def using(folder: str, *parts: str) -> set[str]:
    return set().union(*(_users(folder)[part] for part in parts))


def jars(users: set[str]) -> set[str]:
    return {user.split(":")[0] for user in users}


def test_classes_that_are_used_are_found() -> None:
    assert "hbase-server: NettyRpcServer.class" in using("hbase", HBASE_NETTY + "handler/ssl/SslHandler")


def test_hbase_uses_none_of_nettys_codecs_and_filters() -> None:
    assert using("hbase", *IN_HBASE) == {"hbase-server: MetaBrowser.class"}


def test_only_flumes_channel_and_hbases_internals_use_the_old_protocol_buffers() -> None:
    assert jars(using("flume", PROTOCOL_BUFFERS)) == {"flume-file-channel", "protobuf-java"}
    assert "hbase-thrift" not in jars(using("hbase", PROTOCOL_BUFFERS))


@pytest.mark.parametrize("folder", ["flume", "pyspark"])
def test_nobody_makes_classes_of_names_by_commons_lang(folder: str) -> None:
    assert jars(using(folder, LANG)) <= {"commons-lang"}


def test_hive_asks_commons_lang_only_for_interfaces() -> None:
    users = {user for user in using("metastore", LANG) if not user.startswith("commons-lang:")}
    assert users == {"hive-standalone-metastore: RawStoreProxy.class"}
    (jar,) = FOLDERS["metastore"].glob("hive-standalone-metastore-*.jar")
    with zipfile.ZipFile(jar) as opened:
        code = opened.read("org/apache/hadoop/hive/metastore/RawStoreProxy.class")
    assert b"getAllInterfaces" in code
    assert b"Ljava/lang/String;)Ljava/lang/Class;" not in code
    assert b"Ljava/lang/String;Z)Ljava/lang/Class;" not in code


def test_only_clients_of_kubernetes_and_the_server_of_connect_use_nettys_codecs_and_filters_in_spark() -> (
    None
):
    users = jars(using("pyspark", *IN_SPARK))
    assert users == {"kubernetes-httpclient-vertx", "spark-connect_2.13", "vertx-core", "vertx-web-client"}


@pytest.mark.parametrize(
    ("part", "users"),
    [
        (TELNET, {"jline", "hadoop-client-runtime"}),  # each of these two holds the classes
        (YAML, {"hadoop-client-runtime"}),
        (LOCAL_TASKS, {"hive-exec"}),
        (XXHASH, {"lz4-java", "spark-core_2.13"}),
    ],
)
def test_nobody_in_spark_uses_what_has_a_weakness(part: str, users: set[str]) -> None:
    assert jars(using("pyspark", part)) == users


def test_no_page_of_data_docs_has_a_carousel() -> None:
    pages = list(_folder("great_expectations").glob("render/view/templates/**/*.j2"))
    assert pages
    assert not [page.name for page in pages if re.search("carousel|data-slide|data-ride", page.read_text())]


def test_thrift_for_python_gives_plys_parser_no_pickled_file() -> None:
    calls = re.findall(r"yacc\.yacc\(.*\)", (_folder("thriftpy2") / "parser" / "parser.py").read_text())
    assert "yacc.yacc(debug=False, write_tables=False)" in calls
    assert not [call for call in calls if "picklefile" in call]


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent
