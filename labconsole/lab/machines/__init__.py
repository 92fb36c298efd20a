"""QEMU machines: one that runs a whole lab, and one that is a lab's unit under test."""
