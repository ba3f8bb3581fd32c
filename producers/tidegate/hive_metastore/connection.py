"""Thrift to a Metastore: connect, call, and never trust a connection after a fault."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Self

from tidegate.errors import (
    ConfigError,
    MetastoreRefusedError,
    MissingCallError,
    MissingInMetastoreError,
    TransientError,
)
from tidegate.hive_metastore.settings import MetastoreSettings, addresses
from tidegate.signatures.keys import require_private

_INTERFACE: Final = Path(__file__).with_name("metastore.thrift")
_NEEDED: Final = "a Metastore needs thriftpy2: pip install 'tidegate[metastore]'"
_LENGTH_BYTES: Final = 4  # before each message that is protected, RFC 4422
_MISSING: Final = "NoSuchObjectException"
_REFUSALS: Final = ("MetaException", "NoSuchTxnException", "ConfigValSecurityException")


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


class Connection:
    """A connection for one thread; see `MetastoreClient` for what a call may raise."""

    def __init__(
        self,
        settings: MetastoreSettings,
        called: Callable[[str], object] | None = None,
        service: object = None,
    ) -> None:
        """Take the settings, what counts the calls, and a Thrift service other than the reader's.

        Nothing is connected yet.

        Raises:
            ConfigError: a library is missing that the settings need.
        """
        self._settings = settings
        self._service: Any = service or interface().Metastore
        self._client: Any = None
        self._called = called
        if settings.kerberos is not None:
            _require_sasl()

    def call(self, name: str, *arguments: object) -> Any:  # noqa: ANN401 - Thrift's types
        """Call the Metastore; see `MetastoreClient` for what is raised."""
        from thriftpy2.thrift import TApplicationException, TException  # noqa: PLC0415 - an extra

        if self._called is not None:
            self._called(name)
        try:
            if self._client is None:
                self._client = self._connect()
            return getattr(self._client, name)(*arguments)
        except TException as error:
            kind, message = type(error).__name__, getattr(error, "message", None)
            text = f"the Metastore refuses {name}: {message or kind}"
            if kind == _MISSING:
                raise MissingInMetastoreError(text) from error
            if kind in _REFUSALS:
                raise MetastoreRefusedError(text) from error
            unknown = TApplicationException.UNKNOWN_METHOD
            if kind == TApplicationException.__name__ and getattr(error, "type", 0) == unknown:
                raise MissingCallError(f"the Metastore has no call {name}") from error
            self._give_up(name, error)
        except ConfigError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a broken answer makes the decoder raise
            self._give_up(name, error)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection; the next call makes another one."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def __enter__(self) -> Self:
        """Use it in a `with` block, which closes it."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the connection."""
        self.close()

    def _give_up(self, name: str, error: Exception) -> None:
        """Forget the connection: an answer that comes late would be taken for another call's."""
        self.close()
        message = getattr(error, "message", None) or str(error) or type(error).__name__
        raise TransientError(f"the Metastore did not answer {name}: {message}") from error

    def _connect(self) -> Any:  # noqa: ANN401 - Thrift's types
        faults: list[str] = []
        for host, port in addresses(self._settings.uri):
            try:
                return self._connect_to(host, port)
            except ConfigError:
                raise
            except Exception as error:  # noqa: BLE001 - raised below, with those of the others
                faults.append(f"{host}:{port}: {_said(error)}")
        raise OSError("; ".join(faults))

    def _connect_to(self, host: str, port: int) -> Any:  # noqa: ANN401 - Thrift's types
        from thriftpy2.protocol import TBinaryProtocolFactory, binary  # noqa: PLC0415 - an extra
        from thriftpy2.thrift import TClient  # noqa: PLC0415
        from thriftpy2.transport import TBufferedTransportFactory  # noqa: PLC0415

        opened = _socket(host, port, self._settings)
        if (kerberos := self._settings.kerberos) is not None:
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
        return TClient(self._service, protocol.get_protocol(transport))


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


def _require_sasl() -> None:
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
