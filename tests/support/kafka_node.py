"""The embedded Kafka with settings of a test: nodes of a cluster, TLS and passwords."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tidegate.embedded import EmbeddedBroker

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class KafkaNode(EmbeddedBroker):
    """One Kafka node."""

    def __init__(
        self,
        folder: Path,
        properties: Mapping[str, str],
        *,
        client: Mapping[str, str] | None = None,
        cluster_id: str | None = None,
    ) -> None:
        """Describe it.

        Args:
            folder: Its directory.
            properties: Kafka's settings that win over the usual ones: node ids, voters, TLS, SASL.
            client: librdkafka's settings for asking whether it is up (TLS, SASL).
            cluster_id: The cluster that it belongs to; one of its own if None.
        """
        super().__init__(folder)
        self._properties, self._client = dict(properties), dict(client or {})
        self._cluster_id = cluster_id or self._cluster_id
        if "listeners" in properties:
            ports = {
                name: int(address.rsplit(":", 1)[1])
                for name, address in (it.split("://") for it in properties["listeners"].split(","))
            }
            self._ports = next(iter(ports.values())), ports["CONTROLLER"]

    def _settings(self, ports: tuple[int, int]) -> dict[str, str]:
        known = ",".join(f"{name}:{name}" for name in _PROTOCOLS)
        protocols = {"listener.security.protocol.map": f"CONTROLLER:PLAINTEXT,{known}"}
        return {**super()._settings(ports), **protocols, **self._properties}
