"""Every recipe on a link so slow that exact training waits for it 96% of the time; see README.md."""
