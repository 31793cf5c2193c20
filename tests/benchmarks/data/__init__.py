"""Measurements of order, samplers, packing, masking and stores."""
