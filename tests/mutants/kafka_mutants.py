"""What may happen to topics and messages under a running service, each with a way to break it."""

from __future__ import annotations

from mutants.mutants import RUNTIME, Mutant

_AGAIN = "tests/runtime/test_topic_created_again.py"

_SETTINGS = "tests/publisher/test_client_settings.py"

KAFKA_MUTANTS = (
    Mutant(
        "a leader that was elected anew is looked for before the next attempt",
        RUNTIME + "kafka/metadata.py",
        (
            (
                "            if error.args[0].code() in _LEADER_MOVED:\n",
                "            if not asked:\n",
            ),
        ),
        "tests/runtime/test_leader_moved.py",
    ),
    Mutant(
        "an event is confirmed only when every in-sync replica has it",
        "producers/tidegate/publisher/delivery.py",
        (('    "acks": "all",\n', '    "acks": 1,\n'),),
        f"{_SETTINGS} -k breaks_no_guarantee",
    ),
    Mutant(
        "rule 7: a consumer never jumps to the end of a topic",
        RUNTIME + "kafka/subscription.py",
        (('"auto.offset.reset": "error"', '"auto.offset.reset": "latest"'),),
        f"{_SETTINGS} -k breaks_no_guarantee",
    ),
    Mutant(
        "rule 6: no message is too large to be dead-lettered",
        RUNTIME + "input/dead_letters.py",
        (
            (
                "        except MessageTooLargeError:\n            place",
                "        except ZeroDivisionError:\n            place",
            ),
        ),
        "tests/runtime/test_poison.py",
    ),
    Mutant(
        "rule 6: headers that can't be read are not taken for fewer headers",
        RUNTIME + "kafka/records.py",
        (("            self._message = None  #", "            #"),),
        "tests/runtime/test_poison.py",
    ),
    Mutant(
        "rule 6: an event on the wrong partition is seen",
        RUNTIME + "input/decoder.py",
        (("!= partition_of(event.table, self.partitions)", "< 0"),),
        "tests/runtime/test_wrong_partition.py",
    ),
    Mutant(
        "rule 7: a topic that is created again under a running service is noticed",
        RUNTIME + "topic_identity.py",
        (("    if now.topic_id != before.topic_id:\n", "    if False:\n"),),
        f"{_AGAIN} -k new_topic",
    ),
    Mutant(
        "rule 7: a changelog that is created again under a running decider is noticed",
        RUNTIME + "decider/loop.py",
        (
            (
                "watched=[changelog(decider.name).name(prefix)]",
                "watched=[]",
            ),
        ),
        f"{_AGAIN} -k changelog",
    ),
    Mutant(
        "a call of a shared publisher that waits gets its turn to poll",
        "producers/tidegate/publisher/reports.py",
        (("                self._polling.woken.set()\n", ""),),
        "tests/publisher/test_shared_publisher.py -k hands_the_polling_on",
    ),
    Mutant(
        "a commit of unknown outcome is gone on with, and not aborted",
        RUNTIME + "kafka/fenced_producer.py",
        (
            (
                "            if self._unfinished is not None:  # it may yet",
                "            if False:  # it may yet",
            ),
        ),
        "tests/runtime/test_fenced_producer.py",
    ),
    Mutant(
        "after a commit of unknown outcome all is written again",
        RUNTIME + "kafka/fenced_producer.py",
        (
            (
                "                self._finish(self._unfinished)\n",
                "                return self._finish(self._unfinished)\n",
            ),
        ),
        "tests/runtime/test_fenced_producer.py",
    ),
    Mutant(
        "an abort of unknown outcome is gone on with",
        RUNTIME + "kafka/fenced_producer.py",
        (("            is_over = self._unfinished is None\n", "            is_over = True\n"),),
        "tests/runtime/test_fenced_producer.py",
    ),
    Mutant(
        "rule 4: an owner that was forgotten signs again before it writes (Kafka)",
        RUNTIME + "kafka/changelog.py",
        (("                self._forgotten = self._owned\n", "                pass\n"),),
        "tests/runtime/test_kafka_changelog.py -k forgotten",
        needs_kafka=True,
    ),
)
