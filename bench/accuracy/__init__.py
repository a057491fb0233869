"""Test accuracy of every recipe on real graphs, cut by METIS and at random."""
