"""Process groups and worker processes."""
