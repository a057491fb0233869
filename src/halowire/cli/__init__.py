"""The command line has one file per verb."""
