"""QEMU machines: one that holds a whole lab, one that is its unit under test."""
