"""Who owns which node: partitioners, their quality, cutting into shards, shards on disk."""

from halowire.partition.cut import cut
from halowire.partition.manifest import read_manifest
from halowire.partition.partition import Partition, partition
from halowire.partition.quality import Quality, measure
from halowire.partition.shard import Shard
from halowire.partition.store import read_shard, write_shards

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
