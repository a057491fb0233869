"""Programs of users end cleanly, however often they are run."""
