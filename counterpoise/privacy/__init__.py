"""Sums over clients of which the server learns nothing but the sum."""
