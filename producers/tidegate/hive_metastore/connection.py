"""Thrift to a Metastore: its interface, and connections by TCP, TLS and Kerberos."""

from __future__ import annotations

import ssl
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from tidegate.errors import ConfigError
from tidegate.hive_metastore.settings import MetastoreSettings, addresses
from tidegate.signatures.keys import require_private

_INTERFACE: Final = Path(__file__).with_name("metastore.thrift")
_NEEDED: Final = "a Metastore needs thriftpy2: pip install 'tidegate[metastore]'"
_LENGTH_BYTES: Final = 4  # before each message that is protected, RFC 4422


@cache
def interface() -> Any:  # noqa: ANN401 - a module that thriftpy2 makes of the .thrift file
    """The types and the service of `metastore.thrift`.

    Raises:
        ConfigError: thriftpy2 is not installed.
    """
    try:
        import thriftpy2  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise ConfigError(_NEEDED) from error
    return thriftpy2.load(str(_INTERFACE), module_name="tidegate_metastore_thrift")


def connect(settings: MetastoreSettings, service: Any) -> Any:  # noqa: ANN401 - Thrift's types
    """A Thrift client of the first address that can be reached.

    Raises:
        ConfigError: the settings' certificates or keys can't be used.
        OSError: none can be reached; it says why, for each.
    """
    faults: list[str] = []
    for host, port in addresses(settings.uri):
        try:
            return _connect_to(host, port, settings, service)
        except ConfigError:
            raise
        except Exception as error:  # noqa: BLE001 - raised below, with those of the others
            faults.append(f"{host}:{port}: {_said(error)}")
    raise OSError("; ".join(faults))


def _connect_to(host: str, port: int, settings: MetastoreSettings, service: Any) -> Any:  # noqa: ANN401
    from thriftpy2.protocol import TBinaryProtocolFactory, binary  # noqa: PLC0415 - an extra
    from thriftpy2.thrift import TClient  # noqa: PLC0415
    from thriftpy2.transport import TBufferedTransportFactory  # noqa: PLC0415

    opened = _socket(host, port, settings)
    if (kerberos := settings.kerberos) is not None:
        host = kerberos.host or host
        transport = _sasl(opened, host, kerberos.service, kerberos.protection)
        protocol = binary.TBinaryProtocolFactory()  # the compiled one can't use this transport
    else:
        transport = TBufferedTransportFactory().get_transport(opened)
        protocol = TBinaryProtocolFactory()
    try:
        transport.open()
    except BaseException:
        opened.close()
        raise
    return TClient(service, protocol.get_protocol(transport))


def _said(error: Exception) -> str:
    """What went wrong, with what was met before: thriftpy2 says only that it could not connect."""
    said = str(getattr(error, "message", None) or error)
    met = error.__cause__ or error.__context__
    return said if met is None or str(met) in said else f"{said}: {met}"


def _socket(host: str, port: int, settings: MetastoreSettings) -> Any:  # noqa: ANN401
    import socket  # noqa: PLC0415

    from thriftpy2.transport import TSocket, TSSLSocket  # noqa: PLC0415 - an extra

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    options: dict[str, Any] = {"socket_timeout": settings.timeout_ms, "socket_family": family}
    if (tls := settings.tls) is None:
        return TSocket(host, port, **options)
    if tls.key_file is not None:
        require_private(Path(tls.key_file), "the key of the Metastore's TLS")
    try:
        context = ssl.create_default_context(cafile=tls.ca_file)
        if tls.certificate_file is not None:
            context.load_cert_chain(tls.certificate_file, tls.key_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"TLS to the Metastore: {error}") from error
    return TSSLSocket(host, port, ssl_context=context, **options)


def require_sasl() -> None:
    """Check that the libraries for Kerberos are there.

    Raises:
        ConfigError: one is missing.
    """
    try:
        # first: pure-sasl remembers that it is missing, and then does not know the mechanism
        import_module("kerberos")
        import_module("puresasl.client")
    except ModuleNotFoundError as error:
        raise ConfigError(
            "Kerberos to a Metastore needs pure-sasl and kerberos:"
            " pip install 'tidegate[metastore]' 'pure-sasl[gssapi]'"
        ) from error


def _sasl(opened: Any, host: str, service: str, protection: str) -> Any:  # noqa: ANN401
    from puresasl.client import SASLClient  # noqa: PLC0415 - an extra
    from thriftpy2.transport.sasl import TSaslClientTransport  # noqa: PLC0415

    class _Client:
        """pure-sasl's client as thriftpy2 calls it."""

        def __init__(self) -> None:
            # auth-conf includes auth-int, which includes auth
            levels = ("auth", "auth-int", "auth-conf")
            accepted = levels[levels.index(protection) :]
            self._client = SASLClient(
                host, service, mechanism="GSSAPI", qops=[level.encode() for level in accepted]
            )

        def start(self, mechanism: str) -> tuple[bool, str, bytes]:
            return True, mechanism, self._client.process() or b""

        def step(self, challenge: bytes) -> tuple[bool, bytes]:
            return True, self._client.process(challenge) or b""

        def encode(self, outgoing: bytes) -> tuple[bool, bytes]:
            wrapped = self._client.wrap(outgoing)
            if wrapped is outgoing:  # with "auth" thriftpy2 itself prepends the length
                return True, outgoing
            return True, len(wrapped).to_bytes(_LENGTH_BYTES, "big") + wrapped

        def decode(self, incoming: bytes) -> tuple[bool, bytes]:
            return True, self._client.unwrap(incoming[_LENGTH_BYTES:])

        def getError(self) -> str:  # noqa: N802 - thriftpy2's name
            return "SASL failed"

    return TSaslClientTransport(_Client, "GSSAPI", opened)
