"""A machine becomes a host: keys, certificates, and what is refused."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import asyncssh
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import pkcs12

from sluice.collection import certificates, enrolment, hosts, ssh
from sluice.collection.enrolment import EnrolError
from sluice.collection.hosts import Host
from sluice.runtime.settings import Settings
from tests.collection.ssh_host import EmulatedHost, emulated

pytestmark = pytest.mark.slow


@pytest.fixture
def machine(settings: Settings, tmp_path: Path) -> Iterator[EmulatedHost]:
    with emulated(settings, tmp_path / "h1") as made:
        yield made


@pytest.fixture
def host(settings: Settings, machine: EmulatedHost) -> Host:
    return hosts.load(settings)["h1"]


def test_an_enrolled_host_answers_to_a_key_of_its_own(
    settings: Settings, machine: EmulatedHost, host: Host
) -> None:
    found = enrolment.enrol(settings, host, ssh.host_key(host.address, machine.port)[1])
    assert found.directory == f"{machine.home}/.sluice/test"
    assert found == enrolment.enrolled(settings, host)
    assert enrolment.link(settings, host).run("sh", "-c", "echo $HOME").strip() == str(machine.home)
    for path in (settings.home / "hosts").rglob("*"):
        if path.is_file() and path.name != "address":
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_its_certificate_is_made_out_to_its_address(
    settings: Settings, machine: EmulatedHost, host: Host
) -> None:
    enrolment.enrol(settings, host, ssh.host_key(host.address, machine.port)[1])
    authorities = set()
    for name, address in (("local", "127.0.0.1"), ("h1", "127.0.1.1")):
        packed = (enrolment.folder(settings, name) / certificates.IDENTITY).read_bytes()
        own = pkcs12.load_pkcs12(packed, certificates.PASSWORD)
        assert own.cert is not None
        names = own.cert.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == [address]
        own.cert.certificate.verify_directly_issued_by(own.additional_certs[0].certificate)
        authorities.add(own.additional_certs[0].certificate)
    assert len(authorities) == 1


def test_another_fingerprint_is_refused(settings: Settings, host: Host) -> None:
    with pytest.raises(EnrolError, match=r"shows the key SHA256:.*, not SHA256:other: compare it"):
        enrolment.enrol(settings, host, "SHA256:other")
    with pytest.raises(EnrolError, match=r"not enrolled: run `sluice hosts enrol h1`"):
        enrolment.enrolled(settings, host)


def test_a_host_that_shows_another_key_later_is_not_talked_to(
    settings: Settings, machine: EmulatedHost, host: Host
) -> None:
    enrolment.enrol(settings, host, ssh.host_key(host.address, machine.port)[1])
    enrolment.link(settings, host).close()
    machine.switch_off()
    (machine.home / "host_key").unlink()
    machine.switch_on()
    with pytest.raises(ssh.HostUnreachable, match=r"h1 .* does not answer: .*[Hh]ost key"):
        enrolment.check(settings, host)


def test_a_host_at_another_address_is_enrolled_again(
    settings: Settings, machine: EmulatedHost, host: Host
) -> None:
    enrolment.enrol(settings, host, ssh.host_key(host.address, machine.port)[1])
    with pytest.raises(EnrolError, match=r"enrolled at 127\.0\.1\.1, not 127\.0\.1\.9: run"):
        enrolment.enrolled(settings, host.model_copy(update={"address": "127.0.1.9"}))


@pytest.mark.parametrize(
    ("java", "said"),
    [
        ("echo 'openjdk version \"11.0.1\"'", "is not Java 17 or newer .*11.0.1"),
        ("echo 'command not found'", "is not Java 17 or newer"),
    ],
)
def test_an_old_java_is_refused(
    settings: Settings, machine: EmulatedHost, host: Host, java: str, said: str
) -> None:
    machine.program("java", java)
    with pytest.raises(EnrolError, match=said):
        enrolment.enrol(settings, host, ssh.host_key(host.address, machine.port)[1])


def test_a_key_of_the_users_is_used_and_not_made(settings: Settings, host: Host, tmp_path: Path) -> None:
    assert host.ssh is not None
    given = host.model_copy(update={"ssh": host.ssh.model_copy(update={"key_file": tmp_path / "mine"})})
    with pytest.raises(EnrolError, match=r"mine: there is no such file; correct hosts\.yaml"):
        enrolment.public_key(settings, given)
    mine = asyncssh.generate_private_key("ssh-ed25519")
    mine.write_private_key(str(tmp_path / "mine"))
    assert enrolment.public_key(settings, given).split()[1] == mine.export_public_key().decode().split()[1]


def test_unknown_hosts_are_named(settings: Settings, host: Host) -> None:
    for name in ("h9", "local"):
        with pytest.raises(EnrolError, match=rf"'{name}' is no host .*; hosts\.yaml has h1"):
            enrolment.known(settings, name)
