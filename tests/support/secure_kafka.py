"""A broker with TLS, SASL/SCRAM and access rights, and certificates that the JVM makes."""

from __future__ import annotations

import subprocess
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)

from support.kafka_node import KafkaNode
from tidegate.compute.java import find_java
from tidegate.embedded.process import free_ports
from tidegate.ops.acls import Acl

KEY = "not-secret-on-this-machine"
ADMIN = {"sasl.mechanism": "PLAIN", "sasl.username": "admin", "sasl.password": "admin-password"}
DISTINGUISHED = "CN=ana o'hara,OU=data science,O=lake"
_LOGIN = "org.apache.kafka.common.security"


@dataclass(frozen=True)
class SecureKafka:
    """A broker that refuses clients without a name, and every action that was not allowed."""

    servers: str
    certificate: Path
    mutual: str
    """Where clients show a certificate instead of a password."""
    client_store: Path

    @property
    def admin(self) -> dict[str, str]:
        return self._tls | ADMIN

    def login(self, role: str) -> dict[str, str]:
        """librdkafka's settings for a role, or for the administrator."""
        if role == "admin":
            return self.admin
        return self._tls | {
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": role,
            "sasl.password": password(role),
        }

    def certified(self) -> dict[str, str]:
        """librdkafka's settings for the client whose certificate has the name DISTINGUISHED."""
        return {
            "bootstrap.servers": self.mutual,
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.certificate),
            "ssl.keystore.location": str(self.client_store),
            "ssl.keystore.password": KEY,
        }

    def allow(self, acls: Iterable[Acl]) -> None:
        """Make the users and give them their rights."""
        needed = list(acls)
        client = AdminClient({**self.admin, "bootstrap.servers": self.servers, "log_level": 0})
        scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        users: list[UserScramCredentialAlteration] = [
            UserScramCredentialUpsertion(role, scram, password(role).encode(), None)
            for role in sorted({acl.role for acl in needed})
        ]
        for made in client.alter_user_scram_credentials(users).values():
            made.result(60)
        bindings = [binding(acl, name) for acl in needed for name in acl.principals]
        for created in client.create_acls(bindings).values():
            created.result(60)

    @property
    def _tls(self) -> dict[str, str]:
        return {"security.protocol": "SASL_SSL", "ssl.ca.location": str(self.certificate)}


def password(role: str) -> str:
    return f"the-password-of-{role}"


def binding(acl: Acl, principal: str) -> AclBinding:
    return AclBinding(
        ResourceType[acl.resource.upper().replace("-", "_")],
        acl.name,
        ResourcePatternType.PREFIXED if acl.prefixed else ResourcePatternType.LITERAL,
        principal,
        "*",
        AclOperation[acl.operation.upper()],
        AclPermissionType.ALLOW,
    )


@contextmanager
def secure_kafka(folder: Path) -> Generator[SecureKafka]:
    """Start the broker: a listener with TLS and SASL, also for itself, and one with mutual TLS."""
    store, certificate = make_certificate(folder)
    client_store, client_certificate = make_client_certificate(folder)
    trusted = folder / "trusted.pem"
    trusted.write_text(certificate.read_text() + client_certificate.read_text())
    port, controller = free_ports()
    mutual, _ = free_ports()
    scram = f"{_LOGIN}.scram.ScramLoginModule required;"
    plain = (
        f'{_LOGIN}.plain.PlainLoginModule required username="admin" '
        'password="admin-password" user_admin="admin-password";'
    )
    properties = {
        "listeners": f"SASL_SSL://127.0.0.1:{port},SSL://127.0.0.1:{mutual}"
        f",CONTROLLER://127.0.0.1:{controller}",
        "listener.name.ssl.ssl.client.auth": "required",
        "inter.broker.listener.name": "SASL_SSL",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": plain,
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": scram,
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(store),
        "ssl.keystore.password": KEY,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trusted),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "false",
        # only the node itself reaches the controller's listener as ANONYMOUS
        "super.users": "User:admin;User:ANONYMOUS",
    }
    client = {"security.protocol": "SASL_SSL", "ssl.ca.location": str(certificate), **ADMIN}
    servers = [f"127.0.0.1:{number}" for number in (port, mutual)]
    with KafkaNode(folder / "kafka", properties, client=client):
        yield SecureKafka(servers[0], certificate, servers[1], client_store)


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """A key store of the broker, and its certificate for clients (PEM)."""
    store, certificate = folder / "broker.p12", folder / "broker.pem"
    common = ["-keystore", str(store), "-storepass", KEY, "-alias", "broker"]
    names = ["-dname", "CN=127.0.0.1", "-ext", "SAN=IP:127.0.0.1", "-ext", "BC=ca:true"]
    _keytool("-genkeypair", "-keyalg", "EC", "-storetype", "PKCS12", *names, *common)
    _keytool("-exportcert", "-rfc", "-file", str(certificate), *common)
    return store, certificate


def make_client_certificate(folder: Path) -> tuple[Path, Path]:
    """A key store of a client, which is named by its certificate, and the certificate (PEM)."""
    store, certificate = folder / "client.p12", folder / "client.pem"
    common = ["-keystore", str(store), "-storepass", KEY, "-alias", "client"]
    key = ["-genkeypair", "-keyalg", "EC", "-storetype", "PKCS12", "-dname", DISTINGUISHED]
    _keytool(*key, *common)
    _keytool("-exportcert", "-rfc", "-file", str(certificate), *common)
    store.chmod(0o600)
    return store, certificate


def _keytool(*arguments: str) -> None:
    # the module is in every JVM, the program beside it is not
    tool = [str(find_java(17)), "-m", "java.base/sun.security.tools.keytool.Main"]
    subprocess.run([*tool, *arguments], check=True, capture_output=True)
