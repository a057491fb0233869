# %% [markdown]
# # halowire, step by step
#
# A graph is cut into parts, trained by several workers, and the results are compared. Run it as a script
# (`python examples/walk_through.py`) or open it as a notebook: editors that know `# %%` cells do, and
# `jupytext --to ipynb examples/walk_through.py` makes an `.ipynb` of it.

# %%
import torch
from torch_geometric.nn.models import GraphSAGE

import halowire

# %% [markdown]
# ## The graph
#
# A block model: nodes of a class are linked more often to their own class, and their features are noisy. Anything that
# `halowire.load` reads would do: PyG `Data`, an `.npz` file, an edge list, a folder in OGB's raw layout.

# %%
graph = halowire.block_model(3000, 30000, 16, 5, seed=0)
print(f"{graph.num_nodes} nodes, {graph.num_edges} edges, {graph.num_features} features, {graph.num_classes} classes")

# %% [markdown]
# ## Two parts
#
# METIS cuts few edges. Each worker owns one part; the nodes of the other part that its edges come from are its halo.

# %%
folder = halowire.partition(graph, 2, "shards", quiet=False)

# %% [markdown]
# ## One worker, two workers
#
# The recipe `exact` sends float32 rows of the same epoch. Two workers then train the same model as one, up to rounding.

# %%
settings = {"epochs": 30, "model.hidden": 64, "model.dropout": 0.2}
alone = halowire.train(graph, 1, settings=settings, quiet=True, table=False)
exact = halowire.train(folder, 2, settings=settings, quiet=True, table=False)
print(f"loss with one worker {alone.summary['train_loss']:.5f}, with two {exact.summary['train_loss']:.5f}")
assert abs(alone.summary["train_loss"] - exact.summary["train_loss"]) < 0.02

# %% [markdown]
# ## Fewer bytes
#
# `exact` leaves out rows that need not travel; the report says which. `sylvie-s` sends every row, but every value of
# it, and of its gradient, in one bit. Evaluation is always exact.

# %%
coded = halowire.train(folder, 2, "sylvie-s", settings=settings, quiet=True, table=False)
for run in (exact, coded):
    bytes_sent, accuracy = run.summary["wire_bytes_per_epoch"], run.summary["test"]
    print(f"{run.summary['recipe']:>9}: {bytes_sent:>9.0f} bytes per epoch, test accuracy {accuracy:.3f}")
assert coded.summary["wire_bytes_per_epoch"] < exact.summary["wire_bytes_per_epoch"]

# %% [markdown]
# ## A PyG model
#
# `fit` takes any model of PyG layers, trains it on local workers and gives it back as the plain model that it was.

# %%
torch.manual_seed(0)
done = halowire.fit(GraphSAGE(16, 32, 2, 5), graph, workers=2, settings={"epochs": 40}, quiet=True)
print(f"{done.summary['model']}: test accuracy {done.summary['test']:.3f}, layers on native kernels: ", end="")
print(", ".join(done.summary["native_layers"]) or "none")

# %% [markdown]
# ## Predictions and the report
#
# Predictions are in the order of the graph that was given. Every run has a page with its loss, accuracy, bytes and
# where the time went.

# %%
logits = halowire.predict(coded, coded.folder / "logits.npy")
print(f"logits in {logits}, pages in {exact.report} and {coded.report}")
