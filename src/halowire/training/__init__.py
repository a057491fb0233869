"""Settings, task, training loop, checkpoints and predictions."""
