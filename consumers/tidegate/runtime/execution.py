"""One command carried out: looked up, tried as often as it may be, its outcomes told."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from tidegate.events import Command, Outcome
from tidegate.events.topics import OUTCOME_TOPIC
from tidegate.events.wire import Wire
from tidegate.runtime.bus import Bus
from tidegate.runtime.looking_back import outcomes_of
from tidegate.runtime.patience import Patience
from tidegate.runtime.services import Executor

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Execution:
    """Carries out commands for one executor, from any thread."""

    executor: Executor
    bus: Bus
    prefix: str
    wire: Wire
    patience: Patience

    def carry_out(
        self, command: Command, still_ours: Callable[[], bool], stop: threading.Event
    ) -> None:
        """Try until it is done, or was done before; then the last fault is raised as it is.

        What was said of the command is looked up once, and again only before an attempt that may
        find more: after one of ours that had begun to speak, or where another process may have had
        the command meanwhile.

        Args:
            command: The command.
            still_ours: Whether its partition has been ours ever since it was taken.
            stop: Ends the waiting between two attempts.
        """
        known = False

        def attempt() -> None:
            nonlocal known
            if self._is_answered(command, known=known and still_ours()):
                log.info("%s was answered before", command.event_id)
                return
            known = True
            for outcome in self.executor.execute(command):
                known = False
                self._publish(outcome)

        self.patience.call(attempt, stop)

    def _is_answered(self, command: Command, *, known: bool) -> bool:
        """Ask the executor, with what the broker has of this command: a replay changes nothing."""
        if known or not self.executor.looks_back:
            return False
        said = outcomes_of(command.event_id, self.bus, self.wire, self.prefix)
        return self.executor.is_answered(said)

    def _publish(self, outcome: Outcome) -> None:
        topic = OUTCOME_TOPIC.name(self.prefix)
        log.info("%s %s %s", type(outcome).__name__, outcome.table, outcome.event_id)
        self.bus.send([self.wire.seal(outcome, topic)])
