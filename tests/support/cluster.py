"""Three real Kafka nodes on this machine: broker and controller each, to be hurt one by one."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from confluent_kafka.admin import AdminClient

from support.kafka_node import KafkaNode
from tidegate.embedded.broker import new_cluster_id
from tidegate.embedded.process import free_ports

NODES = (1, 2, 3)
_REPLICATED = {
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}


class Cluster:
    """Replication 3 and at least 2 in sync: any one node may fail."""

    def __init__(self, folder: Path) -> None:
        ports = {node: free_ports() for node in NODES}
        voters = ",".join(f"{node}@127.0.0.1:{ports[node][1]}" for node in NODES)
        cluster_id = new_cluster_id()
        self.brokers = {
            node: KafkaNode(
                folder / str(node),
                {
                    **_REPLICATED,
                    "node.id": str(node),
                    "controller.quorum.voters": voters,
                    "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{other}",
                },
                cluster_id=cluster_id,
            )
            for node, (port, other) in ports.items()
        }
        self.servers = ",".join(f"127.0.0.1:{port}" for port, _ in ports.values())

    def __enter__(self) -> Self:
        with ThreadPoolExecutor(len(NODES)) as pool:  # none is up before two of them are
            list(pool.map(KafkaNode.start, self.brokers.values()))
        self.wait_for_all()
        return self

    def __exit__(self, *_: object) -> None:
        for broker in self.brokers.values():
            broker.kill()

    def leader(self, topic: str, partition: int = 0) -> KafkaNode:
        shown = self._admin().list_topics(topic, timeout=60)
        return self.brokers[shown.topics[topic].partitions[partition].leader]

    def stall(self, broker: KafkaNode, seconds: float) -> None:
        """Nothing comes from this node, and nothing is refused: as if its network hung."""
        assert broker.pid is not None
        os.kill(broker.pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(broker.pid, signal.SIGCONT)

    def wait_for_all(self) -> None:
        """Wait until every node is up and every replica is in sync."""
        deadline = time.monotonic() + 60
        while not self._is_whole():
            assert time.monotonic() < deadline, "the cluster is not whole"
            time.sleep(0.1)

    def _is_whole(self) -> bool:
        shown = self._admin().list_topics(timeout=60)
        partitions = [p for topic in shown.topics.values() for p in topic.partitions.values()]
        return len(shown.brokers) == len(NODES) and all(
            len(partition.isrs) == len(NODES) for partition in partitions
        )

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
