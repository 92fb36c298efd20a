"""Programs that the kernel runs for the agent: bpf(2), an assembler, and what the kernel says of its own types."""
