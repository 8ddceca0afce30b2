"""Asks kafka-python's consumer for records, also where kafka-python 3.0.12 itself would give none."""

from __future__ import annotations

from kafka import KafkaConsumer, TopicPartition

from sluice.transmission.identity import Message

# A poll waits only this long while a partition is paused (its writer may have room again at any moment), and
# while the group is assigned again.
SHORT_POLL_MS = 10

Polled = dict[TopicPartition, list[Message]]


def polled(consumer: KafkaConsumer, wait_ms: int, most: int) -> Polled:
    """The next records, at most `most`, after at most `wait_ms` milliseconds. Raises what `poll` raises."""
    _unpark(consumer)
    short = consumer.paused() or consumer._coordinator.rebalance_in_progress()
    found: Polled = consumer.poll(timeout_ms=SHORT_POLL_MS if short else wait_ms, max_records=most)
    if not found and consumer._coordinator.rebalance_in_progress():
        return _while_joining(consumer, most)
    return found


def _while_joining(consumer: KafkaConsumer, most: int) -> Polled:
    """Records of the partitions that the member has, while the group is assigned again.

    kafka-python 3.0.12's poll gives none until every member has joined, so all partitions would stand still.
    But what the member has, with its positions and pauses, changes only inside `poll`, which has returned. So
    these are the calls that `poll` makes once the member has joined. They do not wait behind the join: the
    group's coordinator has a connection of its own.
    """
    fetcher = consumer._fetcher
    fetcher.maybe_validate_positions()
    fetcher.validate_offsets_if_needed()
    found: Polled = fetcher.fetch_records(most, timeout_ms=SHORT_POLL_MS)[0]
    return found


def _unpark(consumer: KafkaConsumer) -> None:
    """Let the consumer give out what it fetched of partitions that were paused and are resumed.

    kafka-python 3.0.12 looks for it only while the fetch that it gives out is None, and leaves a used-up one
    there. Then a resumed partition would stand still until another partition gets a record.
    """
    fetcher = consumer._fetcher
    if not fetcher._next_partition_records:
        fetcher._next_partition_records = None
