#!/usr/bin/env bash
# Training on several machines: run this on each of them, with the same words.
#
#     examples/several_machines.sh HOST MACHINES GRAPH RUN [FLAGS]
#
# HOST is the name or address of one of the machines, with a free port (node0:29400); there the workers meet.
# GRAPH is a graph that every machine reads from the same path, or a folder of shards that you copied to all of them.
# WORKERS, 1 by default, is the number of workers on each machine; FLAGS go to `halowire train`.
set -euo pipefail
host=$1 machines=$2 graph=$3 run=$4
shift 4
launch=(torchrun --nnodes "$machines" --nproc-per-node "${WORKERS:-1}"
    --rdzv-backend c10d --rdzv-endpoint "$host" --rdzv-id "${RUN_ID:-halowire}")

# A run that was interrupted goes on from its checkpoint.
again=()
if [[ -e $run/config.json ]]; then again=(--resume); fi
exec "${launch[@]}" -m halowire train "$graph" --out "$run" "${again[@]}" "$@"
