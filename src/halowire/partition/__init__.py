"""Who owns which node: partitioners, their quality, cutting into shards, shards on disk."""

from halowire.partition.cut import cut
from halowire.partition.partition import Partition, partition
from halowire.partition.shard import Shard

__all__ = ["Partition", "Shard", "cut", "partition"]
