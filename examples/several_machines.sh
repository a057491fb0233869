#!/usr/bin/env bash
# Training on several machines: run this on each of them, with the same words but for its own NUMBER (0, 1, ...).
#
#     export HALOWIRE_TOKEN=...   # what `openssl rand -hex 16` printed, the same on all machines
#     examples/several_machines.sh HOST NUMBER MACHINES GRAPH RUN [FLAGS]
#
# HOST is the name or address of machine 0, with a free port (node0:29400); there the workers meet.
# GRAPH is a graph that every machine reads from the same path, or a folder of shards that you copied to all of them.
# WORKERS, 1 by default, is the number of workers on each machine; FLAGS go to `halowire train`.
set -euo pipefail
host=$1 number=$2 machines=$3 graph=$4 run=$5
shift 5
: "${HALOWIRE_TOKEN:?set it to the same secret on all machines; openssl rand -hex 16 prints one}"
launch=(torchrun --nnodes "$machines" --node-rank "$number" --nproc-per-node "${WORKERS:-1}"
    --master-addr "${host%:*}" --master-port "${host##*:}")

# A run that was interrupted goes on from its checkpoint.
again=()
if [[ -e $run/config.json ]]; then again=(--resume); fi
exec "${launch[@]}" -m halowire train "$graph" --out "$run" "${again[@]}" "$@"
