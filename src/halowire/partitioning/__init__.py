"""Who owns which node: partitioners, their quality, cutting into shards, shards on disk."""

from halowire.partitioning.cut import cut
from halowire.partitioning.manifest import read_manifest
from halowire.partitioning.partition import Partition, partition
from halowire.partitioning.quality import Quality, measure
from halowire.partitioning.shard import Shard
from halowire.partitioning.store import read_shard, write_shards

__all__ = [
    "Partition",
    "Quality",
    "Shard",
    "cut",
    "measure",
    "partition",
    "read_manifest",
    "read_shard",
    "write_shards",
]
