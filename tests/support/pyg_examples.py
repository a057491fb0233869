"""PyG's documented examples of nodes and links, and users' habits: what changes in them, and what becomes of them.

Every row names the test that proves it. ``python -m tests.support.pyg_list`` writes the tables of
docs/coming-from-pyg.md from this list and that of the layers.
"""

from __future__ import annotations

from dataclasses import dataclass

UNIT = "tests/unit/pyg"


@dataclass(frozen=True)
class Row:
    """A row of the table: the example or habit, what changes, and the test that proves it (file::function).

    What is not tried has none.
    """

    name: str
    change: str
    test: str


MODELS = "tests/parity/test_pyg_examples.py::test_an_example_learns_as_in_plain_pyg"
LAYERS = "tests/parity/test_layer_list.py::test_every_layer_equals_plain_pyg"
LINKS = "tests/parity/test_link_examples.py::test_three_steps_equal_plain_pyg"
TYPED = "tests/parity/test_typed_links.py::test_three_steps_equal_plain_pyg"
THREE = "3 lines: `shard`, `distribute`, `data.cross_entropy`"
WHOLE = "the 3 lines, on the whole graph: its loader of batches is left out"
BATCH = "the 3 lines, on one `Batch` of all graphs instead of a loader"

EXAMPLES = [
    Row("`gcn.py`, `tensorboard_logging.py`", f"{THREE}; the accuracy is `data.mean(pred[mask] == data.y[mask])`",
        "tests/parity/test_pyg_list.py::test_gcn_as_written"),
    Row("`gat.py`, `sgc.py`, `tagcn.py`, `arma.py`, `agnn.py`, `gcn2_cora.py`, `dna.py`, `mixhop.py`, `dir_gnn.py`, "
        "`unimp_arxiv.py`", f"{THREE}", MODELS),
    Row("`pmlp.py`", f"{THREE}; `model(data.x, data.edge_index)` also while training, which ignores the edges",
        f"{UNIT}/test_picked_inputs.py::test_pmlp_learns_with_edges_as_without"),
    Row("`film.py`, `geniepath.py`, `gcn2_ppi.py`, `cluster_gcn_ppi.py`", BATCH, MODELS),
    Row("`rect.py`", f"{THREE}; `get_semantic_labels` before the cut", LAYERS),
    Row("`label_prop.py`", "`shard`, `distribute`; a mask in place of `train_idx`",
        f"{UNIT}/test_picked_inputs.py::test_labels_have_a_column_for_every_class_of_all_workers"),
    Row("`correct_and_smooth.py` (without `autoscale`)", "the 3 lines; `correct` and `smooth` are called in the "
        "forward of a module, with `y[mask]`", LAYERS),
    Row("`signed_gcn.py` (its model)", "the 3 lines; both kinds of edges are one `edge_index`, parted in forward by a "
        "tensor of the edges; scores of signed pairs by `data.pairs`", LAYERS),
    Row("`rgat.py`", "the 3 lines; `edge_type` is cut with the edges", LAYERS),
    Row("`super_gat.py`", "`halowire.Random` in the model gives `neg_edge_index`; without it `SuperGATConv` is refused",
        "tests/parity/test_random_draws.py::test_draws_equal_those_of_plain_pyg"),
    Row("`lightgcn.py`", "`shard`, `distribute`, and `data.pairs(index)` for pairs and negatives",
        "tests/parity/test_lightgcn.py::test_three_steps_equal_plain_pyg"),
    Row("`linkx.py`, `rgcn.py`", "nothing beside `shard`, `distribute` and the loss; `data.train_idx` is translated",
        "tests/parity/test_node_weights.py::test_three_steps_equal_plain_pyg_row_by_row"),
    Row("`rev_gnn.py`", "nothing beside `shard`, `distribute` and the loss, if trained on the whole graph",
        "tests/parity/test_precision.py::test_three_steps_equal_plain_pyg"),
    Row("`ogbn_train.py` (SAGE, GAT), `reddit.py`, `cluster_gcn_reddit.py`, `graph_saint.py`, "
        "`hierarchical_sampling.py`",
        WHOLE, MODELS),
    Row("`ogbn_train.py` (SGFormer, Polynormer)", "nothing beside `shard`, `distribute` and the loss, for one graph",
        "tests/parity/test_graph_batches.py::test_equal_to_plain_pyg"),
    Row("`ogbn_proteins_deepgcn.py`", WHOLE, LAYERS),
    Row("`link_pred.py`", "`shard` of each split, `data.negative_sampling(count)`, "
        "`data.binary_cross_entropy_with_logits`; scores of all workers by `data.gather`",
        f"{UNIT}/test_pairs.py::test_links_are_learnt_and_scored_as_in_plain_pyg"),
    Row("`graph_sage_unsup.py`, `graph_sage_unsup_ppi.py` (one `Batch`)", "as `link_pred.py`: `data.pairs(index)` of "
        "the edges and `data.negative_sampling(count)` in place of the loader; the classifier learns from "
        "`data.gather(out)`",
        f"{UNIT}/test_pairs.py::test_links_are_learnt_and_scored_as_in_plain_pyg"),
    Row("`ar_link_pred.py`", "as `link_pred.py`; a model whose forward takes the pairs is let in too", LINKS),
    Row("`rgcn_link_pred.py`", "`shard`, `distribute`, the loss; `train_edge_index` and `train_edge_type` are cut as "
        "pairs, drawn ones are `data.pairs(index)`; `halowire.clip_grad_norm_`", LINKS),
    Row("`autoencoder.py` (GAE, VGAE)", "3 lines; `1 / data.num_nodes` becomes `1 / data.num_whole_nodes`; "
        "`model.test` becomes `data.gather` of the scores",
        f"{UNIT}/test_pairs.py::test_autoencoders_learn_as_in_plain_pyg"),
    Row("`argva_node_clustering.py`", "3 lines; `1 / data.num_nodes` becomes `1 / data.num_whole_nodes`; both losses "
        "are those of all workers",
        f"{UNIT}/test_pairs.py::test_adversarial_autoencoders_learn_as_in_plain_pyg"),
    Row("`hetero/hetero_conv_dblp.py`, `hetero/hgt_dblp.py`, `hetero/han_imdb.py`", "the same 3 lines, with the mask "
        "of the learnt type", "tests/parity/test_hetero_models.py::test_every_model_on_any_number_of_parts"),
    Row("`hetero/to_hetero_mag.py`, `hetero/hierarchical_sage.py`", WHOLE,
        "tests/parity/test_hetero_models.py::test_every_model_on_any_number_of_parts"),
    Row("`hetero/hetero_link_pred.py`, `hetero/bipartite_sage.py`", "`shard` of each split, `distribute`, "
        "`data.mse_loss`; class weights are counted before the cut", TYPED),
    Row("`hetero/bipartite_sage_unsup.py`, `hetero/recommender_system.py`, `hetero/temporal_link_pred.py`",
        "the same, with `data.binary_cross_entropy_with_logits`; the whole graph instead of a loader, new negatives by "
        "`data.negative_sampling(count, edge_type)`", TYPED),
]  # fmt: skip
"""PyG's ``examples/`` for nodes and links that are let in."""

NO_TEST = ""
REFUSED = [
    Row("`infomax_transductive.py`, `infomax_inductive.py`", "refused: the summary is a mean over all nodes; "
        "distribute the encoder, with `halowire.Random.shuffled` as the corruption in its forward, and take the "
        "summary of `data.gather(z)`, which gives it no gradient", LAYERS),
    Row("`graph_unet.py`", "refused: its pooling makes another graph; leave it out, or train on one worker",
        "tests/parity/test_pyg_examples.py::test_an_example_is_refused_with_the_way_out"),
    Row("`shadow.py`", "refused: every node has a graph of its own, which forward pools and picks the node of "
        "(`root_n_id`); its `SAGEConv` layers alone are let in",
        "tests/parity/test_pyg_examples.py::test_an_example_is_refused_with_the_way_out"),
    Row("`node2vec.py`, `hetero/metapath2vec.py`", "not for halowire: they learn from drawn walks; use a model of "
        "(x, edge_index)", NO_TEST),
    Row("`hetero/dmgi_unsup.py`", "refused: it shuffles nodes in forward; `halowire.Random` draws for one node type",
        f"{UNIT}/test_hetero_data.py::test_shuffled_nodes_are_refused"),
    Row("`compile/`, `jit/`", "`torch.compile(model)` is refused: compile the layers without edges; scripts by "
        "`torch.jit` are not tried",
        "tests/parity/test_precision.py::test_what_cannot_be_saved_or_compiled_says_what_can"),
    Row("`sign.py`, `glnn.py`", "not for halowire: their models see rows only, so torch's own data parallelism does it",
        NO_TEST),
    Row("`seal_link_pred.py`", "not for halowire: a subgraph for each pair, scored as a whole", NO_TEST),
    Row("`lpformer.py`, `kge_fb15k_237.py`, `renet.py`, `tgn.py`", "not tried: a matrix of all pairs of nodes, rows "
        "without messages, or events in time", NO_TEST),
    Row("`ogc.py`", "not tried: it propagates by a matrix that its own code keeps", NO_TEST),
    Row("`dgcnn_segmentation.py`, `pointnet2_segmentation.py`, `point_transformer_segmentation.py`, "
        "`randlanet_segmentation.py`", "not for halowire: neighbours are found inside of forward, in many small clouds "
        "of points", NO_TEST),
    Row("`faust.py`", "not tried: `SplineConv` needs torch_spline_conv; many meshes, whose nodes are the classes",
        NO_TEST),
    Row("`llm/glem.py`", "not tried: a language model learns in turns with the GNN, which alone is that of "
        "`ogbn_train.py`", NO_TEST),
    Row("`contrib/rbcd_attack.py`, `contrib/rbcd_attack_poisoning.py`", "not tried: attacks draw edges of the whole "
        "graph; attack a plain model that `model.state_dict()` is loaded into", NO_TEST),
    Row("`contrib/flag_node_classification.py`", "not tried: it perturbs the features of sampled batches", NO_TEST),
    Row("`contrib/graph_lottery_ticket.py`", "not tried: it learns masks of the weights and edges, and prunes both",
        NO_TEST),
    Row("`contrib/graphwavenet/`", "not tried: it learns a matrix of all pairs of nodes", NO_TEST),
    Row("`explain/`, `contrib/pgm_explainer_node_classification.py`", "explainers are refused; gradients of "
        "`edge_weight` and attention weights are let in, see the habits",
        f"{UNIT}/test_changed_model.py::test_an_explainer_is_refused_with_what_to_do"),
    Row("`rdl.py`, `graphland.py`, `hetero/load_csv.py`, `datapipe.py`", "not tried: what they show is how data "
        "are read", NO_TEST),
    Row("`multi_gpu/`, `quiver/`, `argo.py`, `distributed/`, `pytorch_lightning/`, `ogbn_train_cugraph.py`", "other "
        "ways to train on several devices or cores, in place of halowire", NO_TEST),
]  # fmt: skip
"""PyG's ``examples/`` for nodes and links that are refused or not tried; examples of whole graphs are left out."""

HABITS = [
    Row("`data.edge_attr` that is None, `num_features`, `keys()`, iteration, `clone`, `is_undirected()`", "nothing",
        f"{UNIT}/test_data_habits.py::test_questions_have_the_answers_of_the_whole_graph"),
    Row("`data.train_idx`, `data.split_idx[\"train\"]`", "nothing: translated when the graph is cut",
        f"{UNIT}/test_own_rows.py::test_an_index_of_nodes_gives_the_gradients_of_the_whole_graph"),
    Row("`data.n_id` or `data.node_id` with the numbers of all nodes", "nothing; `x[n_id]` in forward is refused",
        f"{UNIT}/test_own_rows.py::test_the_numbers_of_all_nodes_pick_all_rows_and_name_them_in_whole_tensors"),
    Row("an index, mask or slice made before the cut, on `out`, `data.x`, `data.y`", "refused; `data.translate(index)`",
        f"{UNIT}/test_own_rows.py::test_numbers_of_the_whole_graph_are_refused_with_what_to_write"),
    Row("means, norms, products and orders over the rows of a part, outside of the model: `z.mean(0)`, `z @ z.t()`",
        "refused; `data.mean` of one value per row, features before the cut", f"{UNIT}/test_row_mixing.py::"
        "test_what_needs_all_rows_is_refused_outside_of_a_model"),
    Row("the same of rows that were joined, stacked, flattened or turned: `torch.cat([z1, z2])` and `s @ s.t()`, "
        "`z.view(-1).softmax(0)`", "refused; joined, stacked and turned rows themselves are let in",
        f"{UNIT}/test_row_mixing.py::test_what_needs_all_rows_is_refused_outside_of_a_model"),
    Row("`MultiheadAttention`, a GRU or a convolution along the rows; `z.roll(1, 0)`, `z.flip(0)`",
        "refused; within each row (`z.view(n, heads, d)`) nothing changes",
        f"{UNIT}/test_row_wise.py::test_values_of_each_row_have_the_mean_of_the_whole_graph"),
    Row("`out - data.y` with shapes `[n, 1]` and `[n]`, which meets all pairs", "refused; `out.view(-1)`",
        f"{UNIT}/test_row_mixing.py::test_what_needs_all_rows_is_refused_outside_of_a_model"),
    Row("`conf > conf.median()`, `torch.quantile(...)` as a threshold", "refused; `data.gather(conf).median()`",
        f"{UNIT}/test_row_mixing.py::test_what_needs_all_rows_is_refused_outside_of_a_model"),
    Row("`F.one_hot(data.y)`", "refused; `F.one_hot(data.y, data.num_classes)`",
        f"{UNIT}/test_row_mixing.py::test_what_needs_all_rows_is_refused_outside_of_a_model"),
    Row("`data.y.bincount()` in logits or weights", "refused; `data.gather(data.y).bincount()`",
        f"{UNIT}/test_row_mixing.py::test_what_needs_all_rows_is_refused_outside_of_a_model"),
    Row("`data.edge_attr.mean(0)`, `data.edge_weight / data.edge_weight.mean()`",
        "refused; before the cut, or of `data.gather(data.edge_weight)`",
        f"{UNIT}/test_row_mixing.py::test_what_needs_all_rows_is_refused_outside_of_a_model"),
    Row("values of edges added up at their targets: `scatter(data.edge_weight, data.edge_index[1], 0, data.num_nodes)`",
        "nothing", f"{UNIT}/test_row_wise.py::test_values_of_edges_are_changed_picked_added_up_and_gathered"),
    Row("`degree(data.edge_index[1], data.num_nodes)`, `gcn_norm` before the model", "nothing",
        f"{UNIT}/test_edge_ends.py::test_edges_are_normalised_as_on_the_whole_graph"),
    Row("the distribution of degrees that `PNAConv` asks for, counted on the part", "refused; before the cut, or of "
        "`data.gather(degree(...))`",
        f"{UNIT}/test_edge_ends.py::test_a_layer_with_the_in_degrees_of_one_worker_is_refused"),
    Row("`dropout_edge(data.edge_index)` before the model", "refused; `halowire.DropEdges` in the model",
        f"{UNIT}/test_edge_ends.py::test_draws_and_shares_of_all_edges_are_refused"),
    Row("`homophily(data.edge_index, data.y)`", "refused; before the cut",
        f"{UNIT}/test_edge_ends.py::test_draws_and_shares_of_all_edges_are_refused"),
    Row("`int((pred[mask] == data.y[mask]).sum()) / int(mask.sum())`, `loss.item()` of the part's rows",
        "a warning: they are this worker's; `data.mean(pred[mask] == data.y[mask])`", f"{UNIT}/test_row_mixing.py::"
        "test_a_number_of_one_worker_is_named_once_where_it_is_read"),
    Row("`mask.nonzero(as_tuple=False).view(-1)`, `log_p[torch.arange(data.num_nodes), data.y]`", "nothing",
        f"{UNIT}/test_own_rows.py::test_an_index_of_nodes_gives_the_gradients_of_the_whole_graph"),
    Row("features changed outside of the model: `model(data.x * 1.1, ...)`, `data.x.clone()`, `data.x = f(data.x)`",
        "nothing; rows of such features travel, those of `data.x` from before do not",
        "tests/parity/test_pyg_home_choice.py::"
        "test_features_that_are_made_outside_of_the_model_travel_and_those_of_the_graph_do_not"),
    Row("a head or a learnt mask beside the model", "nothing, if all workers seed alike; else refused",
        f"{UNIT}/test_outside_weights.py::test_a_head_and_a_learnt_mask_learn_as_in_one_process"),
    Row("`BatchNorm1d` in a head beside the model", "refused; make it part of the model",
        f"{UNIT}/test_outside_norms.py::test_a_norm_over_rows_is_refused_in_a_head_and_before_the_model"),
    Row("class weights, `ignore_index`, label smoothing", "`data.cross_entropy(out, y, mask, weight=...)`",
        f"{UNIT}/test_losses.py::test_a_loss_equals_torchs_on_the_whole_graph"),
    Row("`1 / data.y.bincount()` as class weights", "refused; `data.gather(data.y).bincount()`",
        f"{UNIT}/test_losses.py::test_weights_of_classes_that_were_counted_on_a_part_are_refused_on_all_workers"),
    Row("`F.kl_div(..., reduction=\"batchmean\")`", "`data.mean(F.kl_div(..., reduction=\"none\").sum(-1))`",
        f"{UNIT}/test_losses.py::test_a_mean_over_rows_of_a_loss_with_a_value_for_each_class_has_its_way_out"),
    Row("mini-batches of this worker's rows: `DataLoader(index)`, `index.split(n)` of `data.train_mask.nonzero()`",
        "as many on all workers, the last ones empty: `for first in range(0, int(data.gather(torch.tensor("
        "[len(index)])).max()), n)`, `index[first : first + n]`; else the worker with more of them says that another "
        "is gone", f"{UNIT}/test_losses.py::test_batches_of_own_rows_are_as_many_on_every_worker"),
    Row("`data.mean` of a mean", "refused; one value per row",
        f"{UNIT}/test_losses.py::test_a_single_number_is_refused_unless_it_is_said_to_be_one"),
    Row("a loss divided by `data.num_nodes`", "refused; `data.num_whole_nodes`",
        f"{UNIT}/test_pairs.py::test_wrong_uses_of_pairs_are_refused_with_what_to_write"),
    Row("`DistributedDataParallel(model)`", "refused; leave it out",
        f"{UNIT}/test_distribute.py::test_a_wrapped_model_is_refused"),
    Row("an unseeded `RandomNodeSplit` or `RandomLinkSplit`", "refused; `torch_geometric.seed_everything(0)`",
        f"{UNIT}/test_same_graph.py::test_a_difference_is_refused_by_its_name"),
    Row("`model.encode(x, edge_index)`, `model.encoder(...)`, layers by themselves", "nothing",
        f"{UNIT}/test_entries.py::test_three_steps_equal_those_of_plain_pyg"),
    Row("`forward(data)`, `forward()` that reads a global `data`", "nothing",
        f"{UNIT}/test_entries.py::test_data_that_is_read_from_outside"),
    Row("`ToSparseTensor`, `adj_t`, `adj_t @ x`, `torch.sparse.mm`", "nothing; `GCNConv` of a matrix with self loops "
        "is refused, since PyG doubles them there",
        f"{UNIT}/test_adjacency.py::test_three_steps_equal_those_of_plain_pyg"),
    Row("one model on train, validation and test graphs", "`shard` of each, in a row, or `like=` the first",
        f"{UNIT}/test_entries.py::test_one_model_runs_on_several_graphs"),
    Row("`edge_index.max()`, `edge_index * 2`, `to_undirected` in forward", "refused, with your line; before the cut",
        f"{UNIT}/test_written.py::test_a_refusal_names_the_line_of_the_script"),
    Row("`nn.Embedding(num_nodes, ...)`, a row of weights for each node", "nothing; all workers call `state_dict()`",
        "tests/parity/test_node_weights.py::test_three_steps_equal_plain_pyg_row_by_row"),
    Row("`nn.Embedding` or a parameter with a row for each node of a type, on a `HeteroData`",
        "nothing; every worker keeps all rows of it",
        "tests/parity/test_typed_links.py::test_three_steps_equal_plain_pyg"),
    Row("a model made with `data.num_nodes` or `data.num_edges` after the cut", "refused; before the cut, or with "
        "`data.num_whole_nodes`",
        "tests/parity/test_ways_out.py::test_weights_that_count_the_rows_of_a_part_are_refused_with_the_number_of_all"),
    Row("a parameter with a value for each edge", "refused in the model; outside of it, `nn.Parameter(torch.rand("
        "data.num_whole_edges)[data.edge_rows])`, and an argument of the model",
        "tests/parity/test_ways_out.py::test_a_weight_for_each_edge_is_refused_in_the_model_and_learns_outside_of_it"),
    Row("a second list of edges: `data.edge_index2`, `data.hop2_edge_index`", "refused; one `edge_index` with an "
        "`edge_type`, parted in forward: `edge_index[:, edge_type == 1]`",
        "tests/parity/test_ways_out.py::test_a_second_list_of_edges_is_refused_and_is_right_in_one_list"),
    Row("`model.reset_parameters()` for each run", "`torch.manual_seed(run)` right before it; else refused",
        f"{UNIT}/test_same_weights.py::test_weights_that_were_drawn_anew_are_refused_in_backward"),
    Row("the best state, `ReduceLROnPlateau`, early stopping", "by `data.mean(pred[mask] == y[mask])`; else refused",
        f"{UNIT}/test_same_weights.py::test_a_best_state_of_each_worker_is_refused_in_evaluation"),
    Row("a state that rank 0 alone loads before `data.gather(model(...))`", "refused; `load_state_dict` on all workers",
        f"{UNIT}/test_same_weights.py::test_a_state_that_one_worker_loads_is_refused_where_outputs_are_gathered"),
    Row("`clip_grad_norm_` with a row of weights for each node", "`halowire.clip_grad_norm_`; torch's own is refused",
        "tests/parity/test_node_weights.py::test_weights_that_drift_apart_are_refused"),
    Row("float64, bf16, autocast, `torch.utils.checkpoint`", "nothing",
        "tests/parity/test_precision.py::test_three_steps_equal_plain_pyg"),
    Row("`model.double()` after `distribute`", "nothing",
        f"{UNIT}/test_changed_model.py::test_double_after_distribute"),
    Row("`torch.inference_mode`", "nothing",
        "tests/parity/test_precision.py::test_evaluation_in_inference_mode_before_and_between_training"),
    Row("lazy layers (`-1` channels, `LazyLinear`)", "nothing, if forward takes tensors of the graph by name",
        "tests/parity/test_precision.py::test_lazy_layers_get_their_shapes_from_the_graph"),
    Row("`torch.compile(model)`, `torch.save(model)`", "refused; `model.mlp.compile()`, `model.state_dict()`",
        "tests/parity/test_precision.py::test_what_cannot_be_saved_or_compiled_says_what_can"),
    Row("norms with the `batch` of many graphs; features `[N, T, F]`", "nothing",
        "tests/parity/test_graph_batches.py::test_equal_to_plain_pyg"),
    Row("`return_attention_weights=True`, scores of edges as outputs", "nothing; `data.gather(alpha)` for all edges",
        "tests/parity/test_edge_outputs.py::test_values_of_edges_in_every_order"),
    Row("`Explainer`, `GNNExplainer` around a distributed model", "refused; a plain model with `model.state_dict()`",
        f"{UNIT}/test_changed_model.py::test_an_explainer_is_refused_with_what_to_do"),
    Row("a layer put in after `distribute` (`model.norm = BatchNorm1d(64)`)", "refused; `distribute` comes after it",
        f"{UNIT}/test_changed_model.py::test_a_layer_that_was_put_in_later_is_refused"),
    Row("a flag, text or enum of the model that is changed later: `model.stage = \"b\"`, `model.cfg[\"mode\"]`",
        "nothing: checked anew; counters, buffers and globals are not seen",
        f"{UNIT}/test_modes.py::test_modes_by_turns_equal_plain_pyg_and_each_is_rehearsed_once"),
    Row("hooks on layers", "nothing, if they look only; hooks that change values come before `distribute`",
        f"{UNIT}/test_changed_model.py::test_a_later_hook_may_look_and_not_change"),
    Row("gradients of `edge_weight`, as explanations use them", "`data.gather(data.edge_weight.grad)`",
        "tests/parity/test_edge_outputs.py::test_the_importance_of_edges_is_gathered"),
    Row("an index, mask or slice made before the cut, on outputs or tensors of a `HeteroData`",
        "refused; `data.translate(index, \"paper\")`",
        "tests/parity/test_typed_outputs.py::test_an_index_of_the_whole_graph_is_refused_by_type"),
    Row("attention weights and scores by edge type", "nothing; `data.gather(alpha[edge_type])` for all edges",
        "tests/parity/test_typed_outputs.py::test_values_of_edges_are_those_of_plain_pyg"),
    Row("`edge_label_index` passed to forward, alone or in `data`", "nothing; one row for each pair is an output",
        "tests/parity/test_link_examples.py::test_three_steps_equal_plain_pyg"),
    Row("`negative_sampling` by the pairs of this part", "refused; the number of all pairs, before the cut",
        f"{UNIT}/test_pairs.py::test_numbers_and_lists_of_pairs_that_differ_are_refused_on_all_workers"),
    Row("`halowire.DropEdges`, `dropout_edge`", "`DropEdges` is equal, `dropout_edge` is refused",
        "tests/parity/test_pyg_models.py::test_parts_equal_the_whole_model"),
]  # fmt: skip
"""What users do in scripts."""
