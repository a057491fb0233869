"""Who owns which node: partitioners, their quality, cutting into shards, shards on disk."""

from halowire.partitioning.content import EDGE
from halowire.partitioning.cut_shards import Cutting, cut_shards
from halowire.partitioning.halo_lists import HaloLists, NamedHalo
from halowire.partitioning.links import PartLinks, cut_links, links_record, read_links
from halowire.partitioning.machine_rows import fewest_rows, machine_rows, machine_sums
from halowire.partitioning.manifest import fingerprint, is_shard_folder, read_manifest
from halowire.partitioning.metis import metis_owners
from halowire.partitioning.owned_edges import is_by_target, owned_edges, target_order
from halowire.partitioning.partition import Partition, fill_empty, partition
from halowire.partitioning.quality import Quality, measure
from halowire.partitioning.relation import EdgeType, Relation, TypedPart, cut_types
from halowire.partitioning.row_cover import cover_counts, covered_rows, summed_pairs
from halowire.partitioning.shard import Shard, cut
from halowire.partitioning.store import read_shard, write_shards
from halowire.partitioning.type_balance import type_owners, union_edges

__all__ = [
    "EDGE", "Cutting", "EdgeType", "HaloLists", "NamedHalo", "PartLinks", "Partition", "Quality", "Relation", "Shard",
    "TypedPart", "cover_counts", "covered_rows", "cut", "cut_links", "cut_shards", "cut_types", "fewest_rows",
    "fill_empty", "fingerprint", "is_by_target", "is_shard_folder", "links_record", "machine_rows", "machine_sums",
    "measure", "metis_owners", "owned_edges", "partition", "read_links", "read_manifest", "read_shard",
    "summed_pairs", "target_order", "type_owners", "union_edges", "write_shards",
]  # fmt: skip
