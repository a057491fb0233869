"""What a checkpoint in every epoch costs; see README.md."""
