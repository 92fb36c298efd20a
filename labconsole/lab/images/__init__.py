"""Kernels and file systems that a lab's machines and guests boot."""
