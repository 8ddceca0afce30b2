"""A machine becomes a host: keys, certificates, and what is refused."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import asyncssh
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import pkcs12

from sluice.runtime import authority
from sluice.runtime.settings import Settings
from sluice_hosts import hosts
from sluice_hosts.emulated.host import EmulatedHost
from sluice_hosts.hosts import Host
from sluice_hosts.links import ssh
from sluice_hosts.trust import certificates, enrolment
from sluice_hosts.trust.enrolment import EnrolError
from tests.hosts.one_host import emulated

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
    mark = (enrolment.folder(settings) / "mark").read_text()
    assert found.directory == f"{machine.home}/.sluice/test-{mark}"
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


def test_a_host_that_gives_no_files_or_no_ports_is_refused(
    settings: Settings, machine: EmulatedHost, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "AWAY_SECONDS", 0.0)
    machine.program("java", "echo 'openjdk version \"17.0.9\"'")
    fingerprint = ssh.host_key(host.address, machine.port)[1]
    machine.switch_off()
    machine.authorize(f"no-port-forwarding {enrolment.public_key(settings, host)}")
    machine.switch_on()
    with pytest.raises(EnrolError, match=r"h1 forwards no ports .*AllowTcpForwarding local"):
        enrolment.enrol(settings, host, fingerprint)
    machine.switch_off()
    machine.sftp = False
    machine.switch_on()
    with pytest.raises(EnrolError, match=r"h1 gives no access to files over SFTP .*Subsystem sftp"):
        enrolment.enrol(settings, host, fingerprint)


def test_a_key_that_is_not_let_in_is_named(settings: Settings, machine: EmulatedHost, host: Host) -> None:
    machine.switch_off()
    other = asyncssh.generate_private_key("ssh-ed25519")
    machine.authorize(other.export_public_key("openssh").decode().strip())
    machine.switch_on()
    with pytest.raises(ssh.HostUnreachable, match=r"put the line that `sluice hosts enrol h1` prints into"):
        enrolment.enrol(settings, host, ssh.host_key(host.address, machine.port)[1])


def test_a_key_with_a_passphrase_is_a_host_that_does_not_answer(
    settings: Settings, machine: EmulatedHost, host: Host
) -> None:
    found = enrolment.enrol(settings, host, ssh.host_key(host.address, machine.port)[1])
    key = enrolment.folder(settings, "h1") / "locked"
    asyncssh.generate_private_key("ssh-ed25519").write_private_key(str(key), "pkcs8-pem", "secret")
    target = ssh.Target("h1", host.address, machine.port, "me", key, found.host_key)
    with pytest.raises(ssh.HostUnreachable, match="Passphrase must be specified"):
        ssh.link(target).run("true")


def test_a_new_authority_renews_locals_certificate_and_keeps_the_hosts_folder(
    settings: Settings, machine: EmulatedHost, host: Host
) -> None:
    fingerprint = ssh.host_key(host.address, machine.port)[1]
    before = enrolment.enrol(settings, host, fingerprint)
    local, own = hosts.load(settings)["local"], enrolment.folder(settings, "local")
    shown = certificates.checksum(own)
    enrolment.enrol(settings, host, fingerprint)
    assert certificates.checksum(own) == shown
    assert enrolment.check(settings, host)

    (enrolment.folder(settings) / "authority.pem").unlink()
    assert "not of the present authority" in enrolment.local_problem(settings, local)
    with pytest.raises(EnrolError, match=r"certificate of h1 is of another authority"):
        enrolment.check(settings, host)
    assert enrolment.enrol(settings, host, fingerprint) == before
    assert certificates.checksum(own) != shown
    assert enrolment.local_problem(settings, local) == ""
    assert enrolment.check(settings, host)


def test_a_certificate_is_made_again_before_it_ends(
    settings: Settings, machine: EmulatedHost, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    fingerprint = ssh.host_key(host.address, machine.port)[1]
    monkeypatch.setattr(authority, "DECADE", timedelta(days=300))
    (enrolment.folder(settings) / "authority.pem").unlink(missing_ok=True)
    enrolment.enrol(settings, host, fingerprint)
    with pytest.raises(EnrolError, match=r"ends within a year"):
        enrolment.check(settings, host)


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
