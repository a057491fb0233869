"""Tests of the graph folder."""
