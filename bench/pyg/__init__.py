"""Training epochs of halowire with one worker against plain PyTorch Geometric: GCN, GraphSAGE and GAT."""
