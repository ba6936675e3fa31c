"""Measures other engines on the work of rlgen, in the same run; bench/peers.py is the command."""
