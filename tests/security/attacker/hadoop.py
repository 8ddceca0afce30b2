"""HDFS and HBase: their pages, WebHDFS, and their RPC protocols by hand."""

from __future__ import annotations

from .report import Outcome, Report
from .target import Target
from .wire import Wire, ask, attempt

PAGES = ("/", "/jmx", "/conf", "/logs/", "/logLevel?log=root", "/stacks", "/prof", "/dump", "/fsck")
USERS = ("sluice", "root", "hdfs")
FOREIGN = {"Origin": "http://evil.example", "User-Agent": "Mozilla/5.0 Chrome/130.0"}
PLANTED = "/stranger"
NAMENODE_PROTOCOL = "org.apache.hadoop.hdfs.protocol.ClientProtocol"


def pages(target: Target, report: Report) -> None:
    for door in ("namenode_http", "datanode_http", "hbase_master_http"):
        for page in PAGES:
            ask(report, door, target.ports[door], "GET", page)


def webhdfs(target: Target, report: Report) -> None:
    port, door = target.ports["namenode_http"], "namenode_http"
    for user in USERS:
        ask(report, door, port, "GET", f"/webhdfs/v1/?op=LISTSTATUS&user.name={user}")
        planted = f"/webhdfs/v1{PLANTED}-{user}"
        as_user = f"user.name={user}"
        ask(report, door, port, "PUT", f"{planted}?op=MKDIRS&{as_user}")
        ask(report, door, port, "PUT", f"{planted}/x?op=CREATE&noredirect=true&{as_user}")
        ask(report, door, port, "DELETE", f"{planted}?op=DELETE&recursive=true&{as_user}")
    form = {**FOREIGN, "Content-Type": "application/x-www-form-urlencoded"}
    path = f"/webhdfs/v1{PLANTED}?op=APPEND&noredirect=true&user.name=sluice"
    ask(report, door, port, "POST", path, body=b"a=b", headers=form, label="another site's form")
    listing = "/webhdfs/v1/?op=LISTSTATUS&user.name=sluice"
    ask(report, door, port, "GET", listing, headers={"Host": "evil.example"}, label="a foreign Host")
    block = f"/webhdfs/v1/?op=OPEN&user.name=sluice&namenoderpcaddress=127.0.0.1:{target.ports['namenode']}"
    ask(report, "datanode_http", target.ports["datanode_http"], "GET", block)


def rpc(target: Target, report: Report) -> None:
    attempt(report, "namenode", "list / by RPC", target.ports["namenode"], _list_root)
    for door in ("datanode_ipc", "datanode"):
        attempt(report, door, "say hello", target.ports[door], _hello)
    for door, service in (("hbase_master", "MasterService"), ("hbase_regionserver", "ClientService")):
        attempt(report, door, f"call {service} by RPC", target.ports[door], _hbase(service))


def _hello(wire: Wire) -> tuple[Outcome, object]:
    wire.send(b"hrpc\x07\x00\x00" + bytes(16))  # version 7 is refused in words
    return Outcome.ANSWERED, wire.some()[:120]


def _list_root(wire: Wire) -> tuple[Outcome, object]:
    """Send a connection's context and `getListing("/")` as the user `sluice`, without a proof."""
    client = bytes(range(16))
    context = _text(2, _text(1, b"sluice")) + _text(3, NAMENODE_PROTOCOL.encode())
    method = _text(1, b"getListing") + _text(2, NAMENODE_PROTOCOL.encode()) + _int(3, 1)
    wanted = _text(1, b"/") + _text(2, b"") + _int(3, 0)
    wire.send(b"hrpc\x09\x00\x00")
    wire.send_frame(_joined(_rpc_header(5, client), context))  # 5: call -3, as a zigzag number
    wire.send_frame(_joined(_rpc_header(0, client), method, wanted))
    answer = wire.frame()
    size, at = _varint(answer, 0)
    header = answer[at : at + size]
    _, after = _varint(header, 1)  # the call's number
    status, _ = _varint(header, after + 1)
    return (Outcome.READ if status == 0 else Outcome.REFUSED), answer[at + size :][:150]


def _rpc_header(call: int, client: bytes) -> bytes:
    return _int(1, 2) + _int(2, 0) + _int(3, call) + _text(4, client) + _int(5, 1)


def _hbase(service: str):
    def act(wire: Wire) -> tuple[Outcome, object]:
        method = b"GetTableNames" if service == "MasterService" else b"GetRegionInfo"
        wire.send(b"HBas\x00\x50")
        wire.send_frame(_text(1, _text(1, b"sluice")) + _text(2, service.encode()))
        region = b"" if service == "MasterService" else _text(1, _int(1, 1) + _text(2, b"hbase:meta,,1"))
        wire.send_frame(_joined(_int(1, 1) + _text(3, method) + _int(4, 1), region))
        answer = wire.frame()
        size, at = _varint(answer, 0)
        failed = b"Exception" in answer[at : at + size]
        # An error about the call itself was made by code that served it.
        return (Outcome.ANSWERED if failed else Outcome.READ), answer[at:][:150]

    return act


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The number that starts there, and where it ends."""
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            return value, at


def _encoded(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def _int(number: int, value: int) -> bytes:
    return _encoded(number << 3) + _encoded(value)


def _text(number: int, value: bytes) -> bytes:
    return _encoded(number << 3 | 2) + _encoded(len(value)) + value


def _joined(*messages: bytes) -> bytes:
    return b"".join(_encoded(len(each)) + each for each in messages)
