"""What is trained on: graphs, where they come from, and how their edges are normalised."""
