"""The local testbed: network namespaces, SSH servers, link speed, injected ground truth. See docs/lab.md."""
