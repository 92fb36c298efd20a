"""Programs that the kernel runs for the agent: bpf(2), an assembler, and the kernel's description of its own types."""
