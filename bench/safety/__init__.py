"""What headers, digests and checks cost, measured in one run; see README.md."""
