"""The first start: from machines to a testbed, where there is no hosts.yaml yet."""
